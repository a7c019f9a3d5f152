//! What is saved is what is read.

use std::fs;
use std::path::Path;

use capbench::record::*;
use capbench::store::{Place, Store, StoreError, open};
use proptest::prelude::*;

use crate::support;

fn save(run: &Run, base: &Path) -> Store {
    let now = "2026-11-30T12:00:00Z".parse().unwrap();
    let mut store = Store::create(Place::Under(base), "a-run", now, b"name = \"x\"\n").unwrap();
    store.save(run).unwrap();
    store
}

fn assert_same_latency(a: &Latency, b: &Latency) {
    assert!(a.histogram() == b.histogram());
    assert_eq!(a.min_nanos(), b.min_nanos());
    assert_eq!(a.max_nanos(), b.max_nanos());
    assert_eq!(a.sum_nanos(), b.sum_nanos());
    assert_eq!(a.quantile(0.95), b.quantile(0.95));
}

fn scalars(i: &Interval) -> String {
    let mut i = i.clone();
    i.latency = Latency::new();
    i.service = None;
    format!("{i:?}")
}

fn assert_same(a: &Run, b: &Run) {
    assert_eq!(
        serde_json::to_string_pretty(a).unwrap(),
        serde_json::to_string_pretty(b).unwrap()
    );
    for (a, b) in a.cells.iter().zip(&b.cells) {
        assert_eq!(a.server, b.server);
        assert_eq!(a.host, b.host);
        assert_eq!(a.intervals.len(), b.intervals.len());
        for (a, b) in a.intervals.iter().zip(&b.intervals) {
            assert_eq!(scalars(a), scalars(b));
            assert_same_latency(&a.latency, &b.latency);
            assert_eq!(a.service.is_some(), b.service.is_some());
            if let (Some(a), Some(b)) = (&a.service, &b.service) {
                assert_same_latency(a, b);
            }
        }
    }
}

fn finite() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |v| v.is_finite()),
        Just(0.1 + 0.2),
        Just(-0.0)
    ]
}

prop_compose! {
    fn any_latency()(nanos in prop::collection::vec(prop_oneof![0_u64..1_000_000, any::<u64>().prop_map(|n| n >> 4)], 0..40)) -> Latency {
        let mut latency = Latency::new();
        for n in nanos { latency.record(n); }
        latency
    }
}

prop_compose! {
    fn any_interval()(
        counts in prop::array::uniform10(any::<u64>()),
        start in 0.0..1e6_f64, length in 0.0..1e4_f64,
        connected_seconds in finite(),
        measured in any::<bool>(),
        latency in any_latency(),
        service in prop::option::of(any_latency()),
        errors in prop::collection::vec((any::<u16>(), ".{0,12}", any::<u32>()), 0..3),
    ) -> Interval {
        Interval {
            start, end: start + length,
            phase: if measured { Phase::Measure } else { Phase::Discard },
            done: counts[0], failed: counts[1], dropped: counts[2], arrivals: counts[3], retries: counts[4],
            reconnects: counts[5], reads: counts[6] >> 2, writes: counts[7] >> 2, others: counts[8] >> 2,
            connected_seconds, backlog: counts[9], latency, service,
            errors: errors.into_iter().map(|(code, statement, count)| ErrorCount { code, statement, count: count.into() }).collect(),
        }
    }
}

prop_compose! {
    fn any_sample()(at in finite(), values in prop::collection::btree_map("[ -~]{1,10}", finite(), 0..4)) -> Sample {
        Sample { at, values: values.into() }
    }
}

prop_compose! {
    fn any_cell()(
        intervals in prop::collection::vec(any_interval(), 0..4),
        server in prop::collection::vec(any_sample(), 0..3),
        host in prop::collection::vec(any_sample(), 0..3),
        reason in prop::option::of(".{0,30}"),
        seconds in finite(),
        variant in ".{0,20}",
    ) -> CellRecord {
        let mut cell = support::cell(1, &variant, "w", 3, 100.0);
        cell.intervals = intervals;
        cell.server = server;
        cell.host = host;
        cell.reason = reason;
        cell.seconds = seconds;
        cell
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_run_reads_back_as_it_was(cells in prop::collection::vec(any_cell(), 0..4), name in ".{0,40}") {
        let mut run = support::run();
        run.name = name;
        run.cells = cells;
        for (index, cell) in (1..).zip(&mut run.cells) {
            cell.index = index;
        }
        let base = tempfile::tempdir().unwrap();
        let store = save(&run, base.path());
        assert_same(&run, &open(store.dir()).unwrap());
    }
}

#[test]
fn a_new_cell_leaves_the_logs_of_others_alone() {
    use std::os::unix::fs::MetadataExt;
    let mut run = support::knee();
    let last = run.cells.pop().unwrap();
    let base = tempfile::tempdir().unwrap();
    let mut store = save(&run, base.path());
    let inode = |name: &str| fs::metadata(store.dir().join(name)).unwrap().ino();
    let before = inode("latency/0001.hlog");
    run.cells.push(last);
    let dir = store.dir().to_owned();
    store.save(&run).unwrap();
    let after = fs::metadata(dir.join("latency/0001.hlog")).unwrap().ino();
    assert_eq!(before, after);
    assert_same(&run, &open(&dir).unwrap());
}

/// What was written stays in place and grows; a figure that is new has a column in all rows.
#[test]
fn tables_grow_by_a_new_cell() {
    use std::os::unix::fs::MetadataExt;
    const TABLES: [&str; 4] = ["intervals.csv", "errors.csv", "server.csv", "host.csv"];
    let mut run = support::recorded();
    let rest = run.cells.split_off(2);
    let base = tempfile::tempdir().unwrap();
    let mut store = save(&run, base.path());
    let dir = store.dir().to_owned();
    let files = |dir: &Path| {
        TABLES.map(|name| {
            let path = dir.join(name);
            (fs::metadata(&path).unwrap().ino(), fs::read(&path).unwrap())
        })
    };
    for (number, mut cell) in rest.into_iter().enumerate() {
        let before = files(&dir);
        let new_figure = number == 1;
        if new_figure {
            cell.server[0].values.insert("a_new_one".into(), 5.0);
        }
        run.cells.push(cell);
        store.save(&run).unwrap();
        let after = files(&dir);
        for (name, (before, after)) in TABLES.iter().zip(before.iter().zip(&after)) {
            let grown = before.0 == after.0 && after.1.starts_with(&before.1);
            assert_eq!(grown, !(new_figure && *name == "server.csv"), "{name}");
        }
        assert_same(&run, &open(&dir).unwrap());
    }
    // A cell that changed, and a table that someone shortened: all is written anew.
    run.cells[0].intervals.pop();
    store.save(&run).unwrap();
    assert_same(&run, &open(&dir).unwrap());
    fs::write(dir.join("host.csv"), "cell,at_s\n").unwrap();
    store.save(&run).unwrap();
    assert_same(&run, &open(&dir).unwrap());
}

/// A crash in the middle of a save: rows without a cell in the manifest, the last of them cut off.
#[test]
fn rows_of_a_cell_that_was_never_finished_are_left_out() {
    let mut run = support::recorded();
    let base = tempfile::tempdir().unwrap();
    let mut store = save(&run, base.path());
    let dir = store.dir().to_owned();
    let manifest = fs::read(dir.join("run.json")).unwrap();
    let whole = run.clone();
    let mut next = run.cells[0].clone();
    next.index = 6;
    run.cells.push(next);
    store.save(&run).unwrap();
    fs::write(dir.join("run.json"), manifest).unwrap();
    let path = dir.join("server.csv");
    let grown = fs::read(&path).unwrap();
    fs::write(&path, &grown[..grown.len() - 3]).unwrap();
    let mut read = open(&dir).unwrap();
    let said = read.warnings.pop().unwrap();
    assert!(
        said.text.contains("server.csv: ends within line"),
        "{}",
        said.text
    );
    assert_same(&whole, &read);
}

/// Every file but the manifest cut at many places: the run opens, says so, and what is left is a prefix.
#[test]
fn a_folder_cut_off_anywhere_still_opens() {
    let mut run = support::open_loop();
    for cell in &mut run.cells {
        cell.server = vec![
            support::sample(-0.5, &[("Questions", 1.0)]),
            support::sample(10.0, &[("Questions", 7.5)]),
        ];
        cell.host = cell.server.clone();
    }
    let base = tempfile::tempdir().unwrap();
    let dir = save(&run, base.path()).dir().to_owned();
    for name in [
        "intervals.csv",
        "errors.csv",
        "server.csv",
        "host.csv",
        "latency/0002.hlog",
    ] {
        let path = dir.join(name);
        let whole = fs::read(&path).unwrap();
        for cut in (0..whole.len()).step_by(whole.len() / 37 + 1) {
            fs::write(&path, &whole[..cut]).unwrap();
            let read = open(&dir).unwrap_or_else(|e| panic!("{name} cut at {cut}: {e}"));
            let at_line_end = cut > 0 && whole[cut - 1] == b'\n';
            let said = read
                .warnings
                .iter()
                .any(|w| w.name == "records-cut-off" && w.text.contains(name));
            assert!(said || at_line_end, "{name} cut at {cut} was not said");
            for (a, b) in run.cells.iter().zip(&read.cells) {
                assert!(b.intervals.len() <= a.intervals.len());
                for (a, b) in a.intervals.iter().zip(&b.intervals) {
                    assert_eq!(a.done, b.done);
                    assert!(b.latency.count() == 0 || b.latency.count() == a.latency.count());
                }
            }
        }
        fs::remove_file(&path).unwrap();
        match open(&dir) {
            // Without its intervals nothing is known of any cell: a report would undo the one there is.
            Err(error) => assert!(name == "intervals.csv" && error.to_string().contains("missing")),
            Ok(read) => assert!(
                name != "intervals.csv" && read.warnings.iter().any(|w| w.text.contains(name)),
                "{name} missing was not said"
            ),
        }
        fs::write(&path, &whole).unwrap();
    }
    assert_same(&run, &open(&dir).unwrap());
}

#[test]
fn other_folders_are_refused_with_a_way_out() {
    let base = tempfile::tempdir().unwrap();
    let text = |dir: &Path| open(dir).unwrap_err().to_string();
    assert!(text(base.path()).contains("is not a run folder"));
    assert!(text(&base.path().join("none")).contains("cannot read"));
    let file = base.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(text(&file).contains("is not a folder"));

    let dir = save(&support::knee(), &base.path().join("reports"))
        .dir()
        .to_owned();
    let manifest = fs::read_to_string(dir.join("run.json")).unwrap();
    fs::write(
        dir.join("run.json"),
        manifest.replacen("\"format\": 1", "\"format\": 9", 1),
    )
    .unwrap();
    let newer = open(&dir).unwrap_err();
    assert!(matches!(newer, StoreError::Newer { found: 9, .. }));
    assert!(!newer.to_string().contains("capbench capbench"), "{newer}");
    fs::write(dir.join("run.json"), &manifest[..manifest.len() / 2]).unwrap();
    assert!(text(&dir).contains("damaged: EOF"), "{}", text(&dir));
}

/// A figure that is not a number is a fault elsewhere; it must not cost the run.
#[test]
fn what_json_cannot_hold_is_missing_not_fatal() {
    let mut run = support::knee();
    run.cells[0].outage_seconds = f64::NAN;
    run.cells[1].client.busiest_worker.0 = f64::INFINITY;
    let base = tempfile::tempdir().unwrap();
    let read = open(save(&run, base.path()).dir()).unwrap();
    assert!(read.cells[0].outage_seconds.is_nan());
    assert!(read.cells[1].client.busiest_worker.0.is_nan());
}

#[test]
fn lines_that_were_taken_out_are_damage() {
    let base = tempfile::tempdir().unwrap();
    let dir = save(&support::knee(), base.path()).dir().to_owned();
    let path = dir.join("intervals.csv");
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.drain(4..8);
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let said = open(&dir).unwrap_err().to_string();
    assert!(said.contains("interval 8 where 4 must stand"), "{said}");
}

#[test]
fn damage_is_told_from_a_cut_off_end() {
    let base = tempfile::tempdir().unwrap();
    let dir = save(&support::knee(), base.path()).dir().to_owned();
    let path = dir.join("intervals.csv");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("measure", "measur", 1)).unwrap();
    let error = open(&dir).unwrap_err().to_string();
    assert!(
        error.contains("intervals.csv` is damaged: line 3: `measur` is not a phase"),
        "{error}"
    );
}
