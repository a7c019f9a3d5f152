//! Charts as SVG for the HTML report: throughput and p95 over the ladder with the knee marked, and
//! throughput over time.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use serde::Serialize;

use crate::analysis::{Findings, LadderFinding, StepSummary, Validity};
use crate::plan::Step;
use crate::record::{CellRecord, Interval, Phase, Run};
use crate::units::grouped;

use super::figures::figure;

/// One chart.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Chart {
    /// Workload it belongs to.
    pub(super) workload: String,
    /// What it shows.
    pub(super) title: String,
    /// The chart itself.
    pub(super) svg: String,
    /// Over the steps of the ladder; else over time.
    pub(super) ladder: bool,
    /// Of the soak, which is no part of a ladder.
    pub(super) soak: bool,
    /// What the marks in it mean, those that it has.
    pub(super) marks: Vec<&'static str>,
    /// Name and colour of each line.
    pub(super) legend: Vec<Legend>,
}

/// One line of a chart.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Legend {
    /// Name.
    pub(super) name: String,
    /// CSS colour.
    pub(super) color: String,
}

/// Colours that keep their contrast on white and on near-black (Okabe and Ito's palette for
/// colour-blind readers, its yellow and black left out).
const PALETTE: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];
/// Stands for the page's text colour; replaced in the finished SVG.
const TEXT: RGBColor = RGBColor(1, 2, 3);
const GRID: RGBColor = RGBColor(128, 128, 128);
const WIDTH: u32 = 640;
const HEIGHT: u32 = 300;
/// More points than pixels show nothing more and make the page heavy.
const MOST_POINTS: usize = 320;

struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    /// Marked with a ring and a line down: the knee.
    marked: Option<(f64, f64)>,
    /// Where a dashed upright line stands: the recommended limit, when it is not the knee.
    limit: Option<f64>,
    /// What no figure rests on: drawn dashed.
    dropped: Vec<(f64, f64)>,
}

/// All charts of a run.
pub(super) fn charts(run: &Run, findings: &Findings) -> Vec<Chart> {
    let mut workloads: Vec<&str> = Vec::new();
    for ladder in &findings.ladders {
        if !workloads.contains(&ladder.workload.as_str()) {
            workloads.push(&ladder.workload);
        }
    }
    let mut charts = Vec::new();
    for workload in workloads {
        let ladders: Vec<&LadderFinding> = findings
            .ladders
            .iter()
            .filter(|l| l.workload == workload)
            .collect();
        let tps = |s: &StepSummary| s.tps.map(|v| v.0);
        let p95 = |s: &StepSummary| s.p95.map(|v| v.0);
        charts.extend(over_steps(
            workload,
            "Throughput, transactions/s",
            &ladders,
            tps,
        ));
        charts.extend(over_steps(workload, "95th percentile, ms", &ladders, p95));
        for ladder in ladders {
            charts.extend(over_time(run, findings, ladder));
        }
    }
    charts.extend(soak(run, findings));
    charts
}

/// Throughput over the soak, and its 95th percentile.
fn soak(run: &Run, findings: &Findings) -> Vec<Chart> {
    let Some(soak) = &findings.soak else {
        return Vec::new();
    };
    let Some(cell) = run.cells.iter().find(|c| Some(c.index) == soak.cell) else {
        return Vec::new();
    };
    let chart = |title: &str, value: fn(&Interval) -> Option<f64>| {
        let points: Vec<(f64, f64)> = cell
            .measured()
            .filter_map(|i| Some((i.end, value(i)?)))
            .collect();
        let series = [Series {
            name: cell.step.to_string(),
            points: thinned(&points),
            marked: None,
            limit: None,
            dropped: Vec::new(),
        }];
        let svg = draw(
            &series,
            "seconds after the start of the soak",
            Vec::new(),
            tick,
        )?;
        Some(Chart {
            workload: cell.workload.clone(),
            title: format!("Soak, {}: {title}", cell.workload),
            ladder: false,
            soak: true,
            marks: Vec::new(),
            svg,
            legend: legend(&series),
        })
    };
    let tps = chart("throughput, transactions/s", |i| {
        Some(i.done as f64 / i.seconds())
    });
    let p95 = chart("95th percentile, ms", |i| {
        i.latency.quantile(0.95).map(|p| p.0)
    });
    tps.into_iter().chain(p95).collect()
}

fn over_steps(
    workload: &str,
    title: &str,
    ladders: &[&LadderFinding],
    value: impl Fn(&StepSummary) -> Option<f64>,
) -> Option<Chart> {
    let open = ladders.iter().any(|l| l.open.is_some());
    let mut ticks: Vec<f64> = Vec::new();
    let series: Vec<Series> = ladders
        .iter()
        .map(|ladder| {
            let usable = |s: &&StepSummary| s.validity != Validity::Invalid;
            let points: Vec<(f64, f64)> = ladder
                .steps
                .iter()
                .filter(usable)
                .filter_map(|s| Some((position(s.step), value(s)?)))
                .collect();
            ticks.extend(ladder.steps.iter().map(|s| position(s.step)));
            let knee = ladder.knee.as_ref().and_then(|k| k.threads);
            let marked = knee.and_then(|knee| {
                let x = position(Step::Threads(knee));
                points.iter().copied().find(|p| (p.0 - x).abs() < 1e-9)
            });
            Series {
                name: ladder.variant.clone(),
                points,
                marked,
                limit: ladder
                    .limit
                    .threads
                    .filter(|limit| Some(*limit) != knee)
                    .map(|limit| position(Step::Threads(limit))),
                dropped: Vec::new(),
            }
        })
        .collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let (axis, shown): (&str, fn(f64) -> String) = if open {
        ("offered rate, transactions/s", tick)
    } else {
        ("threads (logarithmic)", |x| tick(x.exp2().round()))
    };
    let svg = draw(&series, axis, ticks, shown)?;
    Some(Chart {
        workload: workload.to_owned(),
        title: title.to_owned(),
        ladder: true,
        soak: false,
        marks: marks(&series),
        svg,
        legend: legend(&series),
    })
}

/// Threads double from step to step, so they stand on a logarithmic axis; rates do not.
fn position(step: Step) -> f64 {
    match step {
        Step::Threads(threads) => f64::from(threads.max(1)).log2(),
        Step::Rate(rate) => rate.0,
    }
}

fn over_time(run: &Run, findings: &Findings, ladder: &LadderFinding) -> Option<Chart> {
    let first_pass = |c: &&CellRecord| {
        c.kind.is_step()
            && c.variant == ladder.variant
            && c.workload == ladder.workload
            && c.repeat == 1
    };
    let series: Vec<Series> = run
        .cells
        .iter()
        .filter(first_pass)
        .map(|cell| {
            let points: Vec<(f64, f64)> = cell
                .intervals
                .iter()
                .filter(|i| i.phase == Phase::Measure && i.seconds() > 0.0)
                .map(|i| (i.end, i.done as f64 / i.seconds()))
                .collect();
            let window = findings
                .cells
                .iter()
                .find(|c| c.index == cell.index)
                .and_then(|c| c.window);
            let cut = window.map_or(0, |w| w.dropped).min(points.len());
            // The dashed piece leads up to the first point that counts.
            let dropped = if cut > 0 {
                &points[..points.len().min(cut + 1)]
            } else {
                &[]
            };
            Series {
                name: cell.step.to_string(),
                points: thinned(&points[cut..]),
                marked: None,
                limit: None,
                dropped: thinned(dropped),
            }
        })
        .collect();
    let svg = draw(
        &series,
        "seconds after the start of the step",
        Vec::new(),
        tick,
    )?;
    Some(Chart {
        workload: ladder.workload.clone(),
        title: format!("Throughput over time, transactions/s, {}", ladder.variant),
        ladder: false,
        soak: false,
        marks: marks(&series),
        svg,
        legend: legend(&series),
    })
}

/// Means of neighbours, so that at most [`MOST_POINTS`] remain.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = points.len().div_ceil(MOST_POINTS).max(1);
    points
        .chunks(size)
        .map(|chunk| {
            let n = chunk.len() as f64;
            let (x, y) = chunk
                .iter()
                .fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
            (x / n, y / n)
        })
        .collect()
}

fn marks(series: &[Series]) -> Vec<&'static str> {
    let any = |has: fn(&Series) -> bool| series.iter().any(has);
    [
        ("◯ knee", any(|s| s.marked.is_some())),
        ("┆ recommended limit", any(|s| s.limit.is_some())),
        (
            "┄ dropped by the steady-state cut",
            any(|s| !s.dropped.is_empty()),
        ),
    ]
    .into_iter()
    .filter_map(|(mark, shown)| shown.then_some(mark))
    .collect()
}

fn legend(series: &[Series]) -> Vec<Legend> {
    series
        .iter()
        .enumerate()
        .filter(|(_, s)| !(s.points.is_empty() && s.dropped.is_empty()))
        .map(|(i, s)| {
            let RGBColor(r, g, b) = color(i);
            Legend {
                name: s.name.clone(),
                color: format!("#{r:02x}{g:02x}{b:02x}"),
            }
        })
        .collect()
}

fn color(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

/// Draws lines from zero upwards; `None` when there is nothing to draw.
fn draw(
    series: &[Series],
    axis: &str,
    ticks: Vec<f64>,
    shown: fn(f64) -> String,
) -> Option<String> {
    let all = || {
        series
            .iter()
            .flat_map(|s| s.points.iter().chain(&s.dropped))
    };
    let finite = all().all(|p| p.0.is_finite() && p.1.is_finite());
    if all().next().is_none() || !finite {
        return None;
    }
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
            (low.min(v), high.max(v))
        })
    };
    let (left, right) = bounds(
        &mut all()
            .map(|p| p.0)
            .chain(ticks.iter().copied())
            .chain(series.iter().filter_map(|s| s.limit)),
    );
    let (_, top) = bounds(&mut all().map(|p| p.1));
    let margin = ((right - left) * 0.04).max(0.1);
    let frame = Frame {
        x: (left - margin, right + margin),
        top: if top > 0.0 { top * 1.1 } else { 1.0 },
        axis,
        ticks,
        shown,
    };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        // Drawing into a string fails only on a programming mistake; the report then has no chart.
        plot(&area, series, &frame).ok()?;
    }
    Some(themed(&svg))
}

struct Frame<'a> {
    x: (f64, f64),
    top: f64,
    axis: &'a str,
    ticks: Vec<f64>,
    shown: fn(f64) -> String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// An axis that has its marks at the steps, or where plotters likes them when there are none.
struct Axis {
    range: (f64, f64),
    ticks: Vec<f64>,
}

impl Axis {
    fn plain(&self) -> RangedCoordf64 {
        (self.range.0..self.range.1).into()
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.plain().map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if self.ticks.is_empty() {
            self.plain().key_points(hint)
        } else {
            self.ticks.clone()
        }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.0..self.range.1
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        tick(*value)
    }
}

/// A mark on an axis: whole numbers without decimals.
fn tick(value: f64) -> String {
    if value.fract() == 0.0 {
        grouped(value)
    } else {
        figure(value)
    }
}

fn plot<'a>(area: &Area<'a>, series: &[Series], frame: &Frame<'_>) -> Result<(), Failure<'a>> {
    let x = Axis {
        range: frame.x,
        ticks: frame.ticks.clone(),
    };
    let style = || ("sans-serif", 14).into_font().color(&TEXT);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(58)
        .build_cartesian_2d(x, 0.0..frame.top)?;
    chart
        .configure_mesh()
        .axis_style(GRID.mix(0.8))
        .bold_line_style(GRID.mix(0.25))
        .light_line_style(GRID.mix(0.0))
        .label_style(style())
        .axis_desc_style(style())
        .x_desc(frame.axis)
        .x_labels(12)
        .y_labels(6)
        .x_label_formatter(&|x| (frame.shown)(*x))
        .y_label_formatter(&|y| tick(*y))
        .draw()?;
    for (i, one) in series.iter().enumerate() {
        let color = color(i);
        chart.draw_series(LineSeries::new(
            one.points.iter().copied(),
            color.stroke_width(2),
        ))?;
        chart.draw_series(DashedLineSeries::new(
            one.dropped.iter().copied(),
            6,
            5,
            color.mix(0.7).stroke_width(2),
        ))?;
        if let Some(x) = one.limit {
            chart.draw_series(DashedLineSeries::new(
                [(x, 0.0), (x, frame.top)],
                5,
                4,
                color.stroke_width(1),
            ))?;
        }
        if frame.ticks.is_empty() {
            continue;
        }
        chart.draw_series(
            one.points
                .iter()
                .map(|&point| Circle::new(point, 3, color.filled())),
        )?;
        if let Some(point) = one.marked {
            chart.draw_series([PathElement::new(
                vec![point, (point.0, 0.0)],
                color.mix(0.6).stroke_width(1),
            )])?;
            chart.draw_series([Circle::new(point, 8, color.stroke_width(2))])?;
        }
    }
    drop(chart);
    area.present()
}

/// Text in the page's own colour, and a size that follows the page.
fn themed(svg: &str) -> String {
    let RGBColor(r, g, b) = TEXT;
    svg.replace(&format!("#{r:02X}{g:02X}{b:02X}"), "currentColor")
        .replacen(
            &format!("<svg width=\"{WIDTH}\" height=\"{HEIGHT}\""),
            "<svg role=\"img\"",
            1,
        )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_draw_is_no_chart() {
        assert!(draw(&[], "x", Vec::new(), figure).is_none());
        let not_a_number = Series {
            name: "s".into(),
            points: vec![(1.0, f64::NAN)],
            marked: None,
            limit: None,
            dropped: Vec::new(),
        };
        assert!(draw(&[not_a_number], "x", Vec::new(), figure).is_none());
    }

    #[test]
    fn a_single_point_and_zero_throughput_draw() {
        let one = Series {
            name: "s".into(),
            points: vec![(3.0, 0.0)],
            marked: Some((3.0, 0.0)),
            limit: Some(2.0),
            dropped: vec![(1.0, 0.0), (3.0, 0.0)],
        };
        let svg = draw(&[one], "threads", vec![3.0], |x| figure(x.exp2())).unwrap();
        assert!(svg.starts_with("<svg role=\"img\""), "{svg}");
        assert!(svg.contains("currentColor"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn long_series_are_thinned_to_means() {
        let points: Vec<_> = (0..1000).map(|i| (f64::from(i), 2.0)).collect();
        let thin = thinned(&points);
        assert!(thin.len() <= MOST_POINTS);
        assert!(thin.iter().all(|p| (p.1 - 2.0).abs() < 1e-12));
    }
}
