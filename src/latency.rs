//! Latencies of one class of events, exact where that costs nothing.

use std::borrow::Cow;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use crate::units::Millis;

/// Latencies of one class of events: an HdrHistogram in nanoseconds with 3 significant digits, and
/// minimum, maximum and sum exactly.
///
/// A histogram that spans microseconds to seconds takes some 150 KiB of memory, packed (the V2 format,
/// deflated) about 1 KiB: intervals that have ended are [packed](Self::pack), and what is read from a
/// run folder stays so until it is needed.
#[derive(Debug, Clone)]
pub struct Latency {
    counts: Counts,
    min: u64,
    max: u64,
    sum: u128,
}

#[derive(Debug, Clone)]
enum Counts {
    Open(Histogram<u64>),
    Packed {
        bytes: Box<[u8]>,
        count: u64,
    },
    /// Packed bytes that could not be unpacked, or a merge with such: how many there were is known, and
    /// their exact figures, but no quantile.
    Lost {
        count: u64,
    },
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// Longest latency that is told apart, in nanoseconds: one hour. Longer values raise the
    /// exact maximum and count in the top bucket (the histogram resizes up to there by itself).
    pub const HIGHEST: u64 = 3_600_000_000_000;

    /// No events yet.
    pub fn new() -> Self {
        Self {
            counts: Counts::Open(empty()),
            min: u64::MAX,
            max: 0,
            sum: 0,
        }
    }

    /// Counts one event of `nanos` nanoseconds.
    pub fn record(&mut self, nanos: u64) {
        if let Some(histogram) = self.opened() {
            // Not `saturating_record`: that clamps to the range of the moment instead of resizing. The
            // value lies in the range that the histogram can grow to, so that this cannot fail.
            let _ = histogram.record(nanos.clamp(1, Self::HIGHEST));
        } else if let Counts::Lost { count } = &mut self.counts {
            *count += 1;
        }
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
        self.sum += u128::from(nanos);
    }

    /// Adds all events of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.count() == 0 {
            return;
        }
        let before = self.count();
        match (self.opened(), other.counts.unpacked()) {
            (Some(histogram), Some(more)) => {
                // Only fails when `self` cannot resize; it can.
                let _ = histogram.add(more.as_ref());
            }
            _ => {
                self.counts = Counts::Lost {
                    count: before + other.count(),
                }
            }
        }
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    /// The events of `kept`, when `self` holds those of `dropped` and of `kept` together: cheaper than
    /// merging `kept` where `dropped` are few. `None` when `self` holds other events, by their number and
    /// sum, or when a histogram is lost.
    pub fn without(&self, dropped: &[&Self], kept: &[&Self]) -> Option<Self> {
        let all = || dropped.iter().chain(kept);
        // Figures read from a damaged file may be of any size.
        let same = all().fold(0, |n, l| l.count().wrapping_add(n)) == self.count()
            && all().fold(0, |n, l| l.sum.wrapping_add(n)) == self.sum;
        if !same {
            return None;
        }
        if kept.iter().all(|l| l.count() == 0) {
            return Some(Self::new());
        }
        let mut histogram = self.counts.unpacked()?.into_owned();
        for latency in dropped.iter().filter(|l| l.count() > 0) {
            histogram
                .subtract(latency.counts.unpacked()?.as_ref())
                .ok()?;
        }
        let kept = || kept.iter().filter(|l| l.count() > 0);
        Some(Self {
            counts: Counts::Open(histogram),
            min: kept().map(|l| l.min).min().unwrap_or(u64::MAX),
            max: kept().map(|l| l.max).max().unwrap_or(0),
            sum: kept().fold(0, |n, l| l.sum.wrapping_add(n)),
        })
    }

    /// Forgets all events, keeping the memory.
    pub fn clear(&mut self) {
        match &mut self.counts {
            Counts::Open(histogram) => histogram.reset(),
            other => *other = Counts::Open(empty()),
        }
        self.min = u64::MAX;
        self.max = 0;
        self.sum = 0;
    }

    /// Gives the memory back until the events are needed. Recording into it unpacks it again.
    pub fn pack(&mut self) {
        if let Counts::Open(histogram) = &self.counts {
            let mut bytes = Vec::new();
            // Fails only for counts above 2^63; the histogram then stays as it is.
            if V2DeflateSerializer::new()
                .serialize(histogram, &mut bytes)
                .is_ok()
            {
                self.counts = Counts::Packed {
                    count: histogram.len(),
                    bytes: bytes.into_boxed_slice(),
                };
            }
        }
    }

    /// Rebuilds from a stored histogram and the exact figures beside it.
    pub fn from_parts(mut histogram: Histogram<u64>, min: u64, max: u64, sum: u128) -> Self {
        histogram.auto(true);
        Self {
            counts: Counts::Open(histogram),
            min,
            max,
            sum,
        }
    }

    /// Rebuilds from a histogram in the V2 format (deflated or not), the number of its events and the
    /// exact figures beside it. The bytes are read when they are needed; if they turn out to be
    /// damaged or to hold another number of events, there are no quantiles.
    pub fn from_packed(bytes: Vec<u8>, count: u64, min: u64, max: u64, sum: u128) -> Self {
        Self {
            counts: Counts::Packed {
                bytes: bytes.into_boxed_slice(),
                count,
            },
            min,
            max,
            sum,
        }
    }

    /// Rebuilds from the exact figures alone, when the histogram is lost: no quantiles.
    pub fn without_histogram(count: u64, min: u64, max: u64, sum: u128) -> Self {
        Self {
            counts: Counts::Lost { count },
            min,
            max,
            sum,
        }
    }

    /// The histogram; empty when it is lost.
    pub fn histogram(&self) -> Cow<'_, Histogram<u64>> {
        self.counts
            .unpacked()
            .unwrap_or_else(|| Cow::Owned(empty()))
    }

    /// Number of events.
    pub fn count(&self) -> u64 {
        match &self.counts {
            Counts::Open(histogram) => histogram.len(),
            Counts::Packed { count, .. } | Counts::Lost { count } => *count,
        }
    }

    /// Sum of all latencies in nanoseconds, exact.
    pub fn sum_nanos(&self) -> u128 {
        self.sum
    }

    /// Smallest latency in nanoseconds, exact; `None` without events.
    pub fn min_nanos(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.min)
    }

    /// Largest latency in nanoseconds, exact; `None` without events.
    pub fn max_nanos(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max)
    }

    /// Arithmetic mean, exact; `None` without events.
    pub fn mean(&self) -> Option<Millis> {
        (self.count() > 0).then(|| Millis(self.sum as f64 / self.count() as f64 / 1e6))
    }

    /// The value that `quantile` (0..=1) of the events do not exceed, within 0.1 %, never outside
    /// the exact minimum and maximum; `None` without events or when the histogram is lost.
    pub fn quantile(&self, quantile: f64) -> Option<Millis> {
        if self.count() == 0 {
            return None;
        }
        let nanos = self.counts.unpacked()?.value_at_quantile(quantile);
        // Exact figures from a damaged file may be in the wrong order, and then clamp would panic.
        Some(Millis::from_nanos(nanos.max(self.min).min(self.max)))
    }

    /// The histogram for recording, unpacked in place; `None` when it is lost.
    fn opened(&mut self) -> Option<&mut Histogram<u64>> {
        if let Counts::Packed { count, .. } = self.counts {
            self.counts = match self.counts.unpacked() {
                Some(histogram) => Counts::Open(histogram.into_owned()),
                None => Counts::Lost { count },
            };
        }
        match &mut self.counts {
            Counts::Open(histogram) => Some(histogram),
            _ => None,
        }
    }
}

impl Counts {
    fn unpacked(&self) -> Option<Cow<'_, Histogram<u64>>> {
        match self {
            Self::Open(histogram) => Some(Cow::Borrowed(histogram)),
            Self::Packed { bytes, count } => {
                let mut histogram: Histogram<u64> =
                    Deserializer::new().deserialize(&mut &bytes[..]).ok()?;
                histogram.auto(true);
                (histogram.len() == *count).then_some(Cow::Owned(histogram))
            }
            Self::Lost { .. } => None,
        }
    }
}

fn empty() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "3 digits are always valid")]
    let mut histogram = Histogram::new(3).expect("3 significant digits are valid");
    histogram.auto(true);
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(nanos: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::new();
        nanos.into_iter().for_each(|n| latency.record(n));
        latency
    }

    #[test]
    fn packing_changes_no_figure() {
        let open = sample((1..2000).map(|i| i * i * 37));
        let mut packed = open.clone();
        packed.pack();
        assert!(matches!(packed.counts, Counts::Packed { .. }));
        for q in [0.0, 0.5, 0.95, 0.99, 1.0] {
            assert_eq!(open.quantile(q), packed.quantile(q));
        }
        assert_eq!(open.mean(), packed.mean());
        assert_eq!(open.count(), packed.count());
        let (mut a, mut b) = (sample([5, 7_000_000_000]), sample([5, 7_000_000_000]));
        a.merge(&open);
        b.pack();
        b.merge(&packed);
        assert!(a.histogram() == b.histogram());
        assert_eq!(a.max_nanos(), Some(7_000_000_000));
        packed.record(3);
        assert_eq!(packed.min_nanos(), Some(3));
        assert_eq!(packed.count(), open.count() + 1);
    }

    #[test]
    fn what_is_left_is_what_the_rest_gives() {
        let parts: Vec<Latency> = (1..9_u64)
            .map(|n| sample((n..300 * n).map(|i| i * i * n * 37)))
            .collect();
        let merged = |parts: &[Latency]| {
            let mut all = Latency::new();
            for part in parts {
                all.merge(part);
            }
            all
        };
        let mut whole = merged(&parts);
        whole.pack();
        let by_reference: Vec<&Latency> = parts.iter().collect();
        for drop in 0..=parts.len() {
            let (dropped, kept) = by_reference.split_at(drop);
            let (left, rest) = (whole.without(dropped, kept), merged(&parts[drop..]));
            let left = left.unwrap_or_default();
            assert!(left.histogram() == rest.histogram(), "{drop}");
            assert_eq!(
                (left.min, left.max, left.sum),
                (rest.min, rest.max, rest.sum)
            );
            for q in [0.0, 0.5, 0.95, 0.999, 1.0] {
                assert_eq!(left.quantile(q), rest.quantile(q), "{drop} {q}");
            }
        }
        // Not its parts.
        assert!(whole.without(&[], &by_reference[1..]).is_none());
        let other = sample([5]);
        assert!(whole.without(&[&other], &by_reference).is_none());
    }

    #[test]
    fn a_lost_histogram_has_no_quantile_but_a_mean() {
        let damaged = Latency::from_packed(vec![1, 2, 3], 2, 10, 30, 40);
        assert_eq!(damaged.quantile(0.5), None);
        assert_eq!(damaged.mean(), Some(Millis(20e-6)));
        let mut merged = sample([50]);
        merged.merge(&damaged);
        assert_eq!(merged.count(), 3);
        assert_eq!(merged.quantile(0.95), None);
        assert_eq!(merged.mean(), Some(Millis(30e-6)));
        merged.clear();
        merged.record(9);
        assert_eq!(merged.quantile(1.0), Some(Millis(9e-6)));
    }

    #[test]
    fn longer_than_an_hour_still_counts() {
        let latency = sample([Latency::HIGHEST * 3]);
        assert_eq!(latency.count(), 1);
        assert_eq!(latency.max_nanos(), Some(Latency::HIGHEST * 3));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod latency_tests {
    use super::*;

    /// Percentiles of the raw values, against those of the histogram, over six orders of magnitude.
    #[test]
    fn percentiles_are_those_of_the_raw_values() {
        let mut raw: Vec<u64> = (1..=20_000u64)
            .map(|i| 1_000 + i * i * i / 100 + i * 37 % 1000)
            .collect();
        raw.push(90_000_000_000);
        let mut whole = Latency::new();
        let mut parts = vec![Latency::new(); 3];
        for (i, &value) in raw.iter().enumerate() {
            whole.record(value);
            parts[i % 3].record(value);
        }
        let mut merged = Latency::new();
        for part in &parts {
            merged.merge(part);
        }
        raw.sort_unstable();
        for latency in [&whole, &merged] {
            assert_eq!(latency.count(), raw.len() as u64);
            assert_eq!(latency.max_nanos(), raw.last().copied());
            assert_eq!(latency.min_nanos(), raw.first().copied());
            for quantile in [0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0] {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let rank = ((quantile * raw.len() as f64).ceil() as usize).max(1);
                let exact = raw[rank - 1] as f64 / 1e6;
                let seen = latency.quantile(quantile).unwrap().0;
                assert!(
                    (seen / exact - 1.0).abs() <= 0.001,
                    "{quantile}: {seen} {exact}"
                );
            }
        }
    }
}
