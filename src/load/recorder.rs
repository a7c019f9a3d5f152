//! Counting latencies at the speed of the engine.

use hdrhistogram::Histogram;

use crate::record::Latency;

/// Values below this have a bucket each; above, each doubling has half as many. As `HdrHistogram` with 3
/// significant digits: the smallest power of two that holds 2 · 10³.
const FINE: u64 = 2048;
/// log₂ of half of [`FINE`]: buckets of a doubling.
const HALF: u32 = 10;

/// What becomes a [`Latency`]: the same buckets, so that no figure differs, in a plain table. An event costs
/// some 15 instructions, a fifth of what `Histogram::record` takes, and each query is three events.
#[derive(Debug, Clone)]
pub(super) struct Recorder {
    counts: Vec<u64>,
    min: u64,
    max: u64,
    sum: u128,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            counts: Vec::new(),
            min: u64::MAX,
            max: 0,
            sum: 0,
        }
    }
}

impl Recorder {
    /// Counts one event of `nanos` nanoseconds.
    #[inline]
    pub(super) fn record(&mut self, nanos: u64) {
        let bucket = bucket(nanos);
        match self.counts.get_mut(bucket) {
            Some(count) => *count += 1,
            None => self.grow(bucket),
        }
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
        self.sum += u128::from(nanos);
    }

    /// To the next doubling, at once: not for each new maximum.
    #[cold]
    fn grow(&mut self, bucket: usize) {
        let step = 1 << HALF;
        self.counts.resize((bucket / step + 1) * step, 0);
        self.counts[bucket] += 1;
    }

    /// Adds the events of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    /// Forgets all events, keeping the memory.
    pub(super) fn clear(&mut self) {
        let mut counts = std::mem::take(&mut self.counts);
        counts.fill(0);
        *self = Self {
            counts,
            ..Self::default()
        };
    }

    /// Number of events.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The same events, for the record.
    pub(super) fn latency(&self) -> Latency {
        let Ok(mut histogram) = Histogram::<u64>::new(3) else {
            // Three digits are always possible.
            return Latency::without_histogram(self.count(), self.min, self.max, self.sum);
        };
        histogram.auto(true);
        let highest = bucket(self.max);
        for (bucket, &count) in self.counts.iter().enumerate() {
            // The maximum stands for its bucket: the histogram keeps it as its own.
            let value = if bucket == highest {
                clamped(self.max)
            } else {
                lowest(bucket)
            };
            if count > 0 && histogram.record_n(value, count).is_err() {
                return Latency::without_histogram(self.count(), self.min, self.max, self.sum);
            }
        }
        Latency::from_parts(histogram, self.min, self.max, self.sum)
    }
}

/// As [`Latency::record`] does.
fn clamped(nanos: u64) -> u64 {
    nanos.clamp(1, Latency::HIGHEST)
}

#[inline]
fn bucket(nanos: u64) -> usize {
    let value = clamped(nanos);
    // How many bits a value has more than the finest buckets tell apart.
    let shift = FINE.leading_zeros() + 1 - (value | (FINE - 1)).leading_zeros();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an hour in nanoseconds lies in bucket 33,000 or so"
    )]
    let bucket = ((u64::from(shift) << HALF) + (value >> shift)) as usize;
    bucket
}

/// The smallest value of a bucket.
fn lowest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < FINE {
        return bucket;
    }
    let shift = (bucket >> HALF) - 1;
    (bucket - (shift << HALF)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Both, with the same events.
    fn both(values: &[u64]) -> (Recorder, Latency) {
        let (mut recorder, mut latency) = (Recorder::default(), Latency::new());
        for &value in values {
            recorder.record(value);
            latency.record(value);
        }
        (recorder, latency)
    }

    fn same(recorder: &Recorder, latency: &Latency) {
        let ours = recorder.latency();
        assert!(ours.histogram() == latency.histogram());
        assert_eq!(ours.count(), latency.count());
        assert_eq!(ours.min_nanos(), latency.min_nanos());
        assert_eq!(ours.max_nanos(), latency.max_nanos());
        assert_eq!(ours.sum_nanos(), latency.sum_nanos());
        for quantile in [0.0, 0.5, 0.95, 0.99, 0.999, 1.0] {
            assert_eq!(ours.quantile(quantile), latency.quantile(quantile));
        }
    }

    fn values() -> impl Strategy<Value = Vec<u64>> {
        let any_size = (0..64u32, any::<u64>()).prop_map(|(shift, value)| value >> shift);
        prop::collection::vec(any_size, 0..200)
    }

    proptest! {
        #[test]
        fn it_counts_as_the_histogram_does(values in values(), more in values()) {
            let (mut recorder, mut latency) = both(&values);
            same(&recorder, &latency);
            let (other, others) = both(&more);
            recorder.merge(&other);
            latency.merge(&others);
            same(&recorder, &latency);
            recorder.clear();
            same(&recorder, &Latency::new());
            let (again, _) = both(&more);
            recorder.merge(&again);
            same(&recorder, &others);
        }
    }

    #[test]
    fn at_the_edges_of_buckets() {
        let edges: Vec<u64> = (0..64)
            .flat_map(|bit| {
                let power = 1u64 << bit;
                [power - 1, power, power + 1, power + power / 2]
            })
            .chain([Latency::HIGHEST - 1, Latency::HIGHEST, u64::MAX])
            .collect();
        let (recorder, latency) = both(&edges);
        same(&recorder, &latency);
        assert_eq!(recorder.count(), edges.len() as u64);
    }
}
