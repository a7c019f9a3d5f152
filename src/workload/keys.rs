//! Drawing row ids.

use rand::RngExt as _;
use rand_distr::{Distribution as _, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::access::{Access, Distribution};

/// Uniforms whose mean makes a gaussian-like draw (sysbench's `rand-spec-iter` at its default).
const GAUSSIAN_TERMS: u8 = 12;

/// Draws row ids in `1..=rows` by an access distribution. Cheap to clone; holds no random state.
#[derive(Debug, Clone)]
pub struct KeySampler {
    first: u64,
    span: u64,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Uniform,
    Gaussian,
    Special {
        hot: f64,
        start: f64,
        cold: f64,
    },
    Pareto {
        power: f64,
    },
    Zipfian {
        zipf: Zipf<f64>,
        scramble: Option<Scramble>,
    },
}

impl KeySampler {
    /// A sampler over `1..=rows`. An empty table (`rows` = 0) is treated as one of a single row, so
    /// that a draw always has an answer.
    pub fn new(access: &Access, rows: u64) -> Self {
        Self::over(access, 1, rows)
    }

    /// A sampler over client `client`'s own segment of the table, `[t·L, (t+1)·L]` with L = rows ÷
    /// clients and both ends included (sysbench's `select_random_*` scripts; id 0 exists for the first
    /// client there, and finds nothing).
    pub fn for_segment(access: &Access, rows: u64, client: u32, clients: u32) -> Self {
        let length = rows as f64 / f64::from(clients.max(1));
        let start = floor(length * f64::from(client));
        let end = floor(length * (f64::from(client) + 1.0)).min(rows);
        Self::over(access, start, end.saturating_sub(start) + 1)
    }

    fn over(access: &Access, first: u64, span: u64) -> Self {
        let span = span.max(1);
        let kind = match access.distribution {
            Distribution::Uniform => Kind::Uniform,
            Distribution::Gaussian => Kind::Gaussian,
            Distribution::Special { pct, res } => {
                // Facts of sysbench 1.0: with t = b − a, hits in the hot range reuse the draw that chose it.
                let t = (span - 1) as f64;
                let share = f64::from(pct.min(100)) / 100.0;
                Kind::Special {
                    hot: t * share + 1.0,
                    start: t / 2.0 - t * share / 2.0,
                    cold: 1.0 - f64::from(res.min(100)) / 100.0,
                }
            }
            Distribution::Pareto { h } => Kind::Pareto {
                power: pareto_power(h),
            },
            Distribution::Zipfian { theta, scrambled } => match zipf(span, theta) {
                Some(zipf) => Kind::Zipfian {
                    zipf,
                    scramble: scrambled.then(|| Scramble::new(span)),
                },
                None => Kind::Uniform,
            },
        };
        Self { first, span, kind }
    }

    /// Draws one id.
    #[inline]
    pub fn sample(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let last = self.span - 1;
        let offset = match &self.kind {
            Kind::Uniform => rng.random_range(0..self.span),
            Kind::Gaussian => floor(self.span as f64 * mean_of_uniforms(rng)).min(last),
            Kind::Special { hot, start, cold } => {
                let u: f64 = rng.random();
                let position = if u < *cold {
                    last as f64 * mean_of_uniforms(rng)
                } else {
                    u * hot + start
                };
                floor(position).min(last)
            }
            Kind::Pareto { power } => {
                floor(self.span as f64 * rng.random::<f64>().powf(*power)).min(last)
            }
            Kind::Zipfian { zipf, scramble } => {
                // Floating point may round a draw just above the last rank; such a draw is repeated.
                let rank = loop {
                    let rank = floor(zipf.sample(rng));
                    if (1..=self.span).contains(&rank) {
                        break rank - 1;
                    }
                };
                scramble.as_ref().map_or(rank, |s| s.apply(rank))
            }
        };
        self.first + offset
    }
}

/// `Zipf` by rejection (exact for every θ ≥ 0); `None` when θ is not a number or below 0, which plans refuse.
fn zipf(span: u64, theta: f64) -> Option<Zipf<f64>> {
    // Next to 1 the general formula divides rounding errors by 1 − θ; the limit is exact instead.
    let theta = if (theta - 1.0).abs() < 1e-9 {
        1.0
    } else {
        theta
    };
    Zipf::new(span as f64, theta).ok()
}

/// p = ln h ÷ ln(1 − h), so that 1 − h of the hits fall in the lowest h of the ids.
fn pareto_power(h: f64) -> f64 {
    let h = if h.is_finite() {
        h.clamp(1e-6, 1.0 - 1e-6)
    } else {
        0.2
    };
    h.ln() / (1.0 - h).ln()
}

fn mean_of_uniforms(rng: &mut Xoshiro256PlusPlus) -> f64 {
    let sum: f64 = (0..GAUSSIAN_TERMS).map(|_| rng.random::<f64>()).sum();
    sum / f64::from(GAUSSIAN_TERMS)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positions in a table are not negative, and a cast of a float saturates"
)]
#[inline]
fn floor(position: f64) -> u64 {
    position as u64
}

/// A permutation of `0..span` that looks random: shifts and odd multiplications, each a bijection of
/// the numbers below a power of two, walked on until the result lies below `span`. The same for every
/// client and run, so that the hot ids are the same ones everywhere.
#[derive(Debug, Clone)]
struct Scramble {
    span: u64,
    mask: u64,
    shift: u32,
}

impl Scramble {
    fn new(span: u64) -> Self {
        let bits = (64 - (span - 1).leading_zeros()).max(1);
        Self {
            span,
            mask: u64::MAX >> (64 - bits),
            shift: bits.div_ceil(2).max(1),
        }
    }

    fn apply(&self, rank: u64) -> u64 {
        // Multipliers of SplitMix64's finaliser and the golden ratio; any odd numbers would do.
        const ROUNDS: [(u64, u64); 3] = [
            (0xbf58_476d_1ce4_e5b9, 0x632b_e59b_d9b4_e019),
            (0x94d0_49bb_1331_11eb, 0xd1b5_4a32_d192_ed03),
            (0x9e37_79b9_7f4a_7c15, 0x8ebc_6af0_9c88_c6e3),
        ];
        let mut x = rank;
        loop {
            for (factor, add) in ROUNDS {
                x = x.wrapping_mul(factor).wrapping_add(add) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.span {
                return x;
            }
        }
    }
}

/// Share of all hits that fall on the hottest 1 % of the ids (at least one id), between 0 and 1.
pub fn hot_share(access: &Access, rows: u64) -> f64 {
    let rows = rows.max(1);
    let n = rows.div_ceil(100) as f64;
    let all = rows as f64;
    let share = match access.distribution {
        Distribution::Uniform => n / all,
        Distribution::Gaussian => central_share(n / all),
        Distribution::Special { pct, res } => {
            let (pct, res) = (
                f64::from(pct.min(100)) / 100.0,
                f64::from(res.min(100)) / 100.0,
            );
            // The draw that chose the hot range is reused: only its upper `res` part is hit.
            let hot = (all - 1.0) * pct + 1.0;
            let covered = (n / hot).min(res);
            covered + (1.0 - res) * central_share(n / all)
        }
        Distribution::Pareto { h } => (n / all).powf(1.0 / pareto_power(h)),
        Distribution::Zipfian { theta, .. } => harmonic(n, theta) / harmonic(all, theta),
    };
    share.clamp(0.0, 1.0)
}

/// Probability that the mean of 12 uniforms lies within `width` around ½ (Irwin–Hall distribution:
/// F(x) = 1/n! · Σ (−1)^k · C(n, k) · (x − k)^n over k < x).
fn central_share(width: f64) -> f64 {
    let n = f64::from(GAUSSIAN_TERMS);
    let cumulative = |x: f64| -> f64 {
        let mut sum = 0.0;
        let mut signed_binomial = 1.0;
        for k in 0..=GAUSSIAN_TERMS {
            let k = f64::from(k);
            if k >= x {
                break;
            }
            sum += signed_binomial * (x - k).powi(i32::from(GAUSSIAN_TERMS));
            signed_binomial *= -(n - k) / (k + 1.0);
        }
        let factorial: f64 = (1..=GAUSSIAN_TERMS).map(f64::from).product();
        sum / factorial
    };
    let half = n * width.min(1.0) / 2.0;
    cumulative(n / 2.0 + half) - cumulative(n / 2.0 - half)
}

/// Σ k^−θ for k = 1 … n: the first terms one by one, the rest by the Euler–Maclaurin formula (error
/// below 1e-9 of the sum).
fn harmonic(n: f64, theta: f64) -> f64 {
    const HEAD: f64 = 1000.0;
    let head = n.min(HEAD);
    let mut sum = 0.0;
    let mut k = 1.0;
    while k <= head {
        sum += k.powf(-theta);
        k += 1.0;
    }
    if n > head {
        let integral = if (theta - 1.0).abs() < 1e-9 {
            (n / head).ln()
        } else {
            (n.powf(1.0 - theta) - head.powf(1.0 - theta)) / (1.0 - theta)
        };
        sum += integral
            + (n.powf(-theta) - head.powf(-theta)) / 2.0
            + theta * (head.powf(-theta - 1.0) - n.powf(-theta - 1.0)) / 12.0;
    }
    sum
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail by panic")]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng as _;

    use super::*;

    fn access(distribution: Distribution) -> Access {
        Access { distribution }
    }

    fn counts(distribution: Distribution, rows: u64, draws: u32) -> Vec<f64> {
        let sampler = KeySampler::new(&access(distribution), rows);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut counts = vec![0.0; usize::try_from(rows).unwrap()];
        for _ in 0..draws {
            let id = sampler.sample(&mut rng);
            counts[usize::try_from(id - 1).unwrap()] += 1.0;
        }
        counts
    }

    /// Pearson's statistic in standard deviations above its mean (normal approximation).
    fn chi_square_excess(counts: &[f64], probabilities: &[f64]) -> f64 {
        let draws: f64 = counts.iter().sum();
        let statistic: f64 = counts
            .iter()
            .zip(probabilities)
            .map(|(n, p)| (n - draws * p).powi(2) / (draws * p))
            .sum();
        let freedom = counts.len() as f64 - 1.0;
        (statistic - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn uniform_is_flat() {
        let counts = counts(Distribution::Uniform, 100, 200_000);
        assert!(chi_square_excess(&counts, &[0.01; 100]) < 4.0);
    }

    #[test]
    fn zipfian_equals_its_exact_probabilities() {
        for theta in [0.0, 0.5, 0.8, 0.99, 1.0, 1.0 + 1e-12, 1.5, 3.0] {
            let weights: Vec<f64> = (1..=50).map(|k| f64::from(k).powf(-theta)).collect();
            let sum: f64 = weights.iter().sum();
            let probabilities: Vec<f64> = weights.iter().map(|w| w / sum).collect();
            let plain = Distribution::Zipfian {
                theta,
                scrambled: false,
            };
            let counts = counts(plain, 50, 400_000);
            // Ranks too rare to be expected five times go into one bin, as the test demands.
            let common = probabilities
                .iter()
                .filter(|p| **p * 400_000.0 >= 5.0)
                .count();
            let fold = |values: &[f64]| {
                let mut bins = values[..common].to_vec();
                if common < values.len() {
                    bins.push(values[common..].iter().sum());
                }
                bins
            };
            let excess = chi_square_excess(&fold(&counts), &fold(&probabilities));
            assert!(excess < 4.0, "θ {theta}: {excess}");
        }
    }

    #[test]
    fn scrambling_permutes_the_ids() {
        for span in [1, 2, 3, 7, 64, 1000, 65_537] {
            let scramble = Scramble::new(span);
            let mut ids: Vec<u64> = (0..span).map(|rank| scramble.apply(rank)).collect();
            // The hottest ids do not stand side by side.
            if span >= 1000 {
                assert!(ids[0].abs_diff(ids[1]) > 2 && ids[1].abs_diff(ids[2]) > 2);
            }
            ids.sort_unstable();
            assert_eq!(ids, (0..span).collect::<Vec<u64>>());
        }
        let plain = Distribution::Zipfian {
            theta: 0.8,
            scrambled: false,
        };
        let scrambled = Distribution::Zipfian {
            theta: 0.8,
            scrambled: true,
        };
        let mut plain = counts(plain, 1000, 100_000);
        let mut scrambled = counts(scrambled, 1000, 100_000);
        assert_ne!(plain, scrambled);
        plain.sort_by(f64::total_cmp);
        scrambled.sort_by(f64::total_cmp);
        assert_eq!(plain, scrambled);
    }

    #[test]
    fn special_reproduces_the_published_counts() {
        // sysbench#329: over 1..=1000, id 498 is hit about 0.75 and id 506 about 0.5 times as often as 499–505.
        let counts = counts(Distribution::Special { pct: 1, res: 75 }, 1000, 2_000_000);
        let inner: f64 = counts[498..505].iter().sum::<f64>() / 7.0;
        assert!(
            (counts[497] / inner - 0.75).abs() < 0.02,
            "{}",
            counts[497] / inner
        );
        assert!(
            (counts[505] / inner - 0.50).abs() < 0.02,
            "{}",
            counts[505] / inner
        );
        let hot: f64 = counts[497..506].iter().sum();
        // 75 % and what the gaussian part adds in the middle.
        assert!((0.75..0.78).contains(&(hot / 2_000_000.0)));
    }

    #[test]
    fn pareto_is_eighty_twenty() {
        let counts = counts(Distribution::Pareto { h: 0.2 }, 1000, 500_000);
        let lowest: f64 = counts[..200].iter().sum();
        assert!((lowest / 500_000.0 - 0.8).abs() < 0.005);
    }

    #[test]
    fn gaussian_has_the_moments_of_a_mean_of_twelve_uniforms() {
        let counts = counts(Distribution::Gaussian, 1000, 500_000);
        let moment = |power: i32, center: f64| {
            let mut sum = 0.0;
            for (i, n) in counts.iter().enumerate() {
                sum += n * (i as f64 + 0.5 - center).powi(power);
            }
            sum / 500_000.0
        };
        assert!((moment(1, 0.0) - 500.0).abs() < 1.0);
        // A uniform has variance 1/12, the mean of twelve 1/144: a standard deviation of 1000/12.
        assert!((moment(2, 500.0).sqrt() - 1000.0 / 12.0).abs() < 0.5);
    }

    #[test]
    fn hot_share_agrees_with_the_draws() {
        for distribution in [
            Distribution::Uniform,
            Distribution::Gaussian,
            Distribution::Special { pct: 1, res: 75 },
            Distribution::Pareto { h: 0.2 },
            Distribution::Zipfian {
                theta: 0.8,
                scrambled: true,
            },
            Distribution::Zipfian {
                theta: 1.0,
                scrambled: false,
            },
        ] {
            let rows = 20_000;
            let mut counts = counts(distribution, rows, 2_000_000);
            counts.sort_by(|a, b| b.total_cmp(a));
            let drawn = counts[..200].iter().sum::<f64>() / 2_000_000.0;
            let said = hot_share(&access(distribution), rows);
            // Sorting by counts favours ids that were lucky: a flat distribution seems a little hotter.
            assert!(
                drawn > said - 0.002 && drawn < said + 0.006,
                "{distribution:?}: {drawn} drawn, {said} said"
            );
        }
        // Figures with a known value.
        assert!((hot_share(&access(Distribution::Uniform), 1_000_000) - 0.01).abs() < 1e-12);
        let all = harmonic(1e6, 1.0);
        assert!((all - 14.392_726_722_865).abs() < 1e-9, "{all}");
    }

    #[test]
    fn segments_cover_the_table_between_them() {
        let uniform = access(Distribution::Uniform);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        for client in 0..4 {
            let sampler = KeySampler::for_segment(&uniform, 1000, client, 4);
            let (mut low, mut high) = (u64::MAX, 0);
            for _ in 0..20_000 {
                let id = sampler.sample(&mut rng);
                low = low.min(id);
                high = high.max(id);
            }
            let start = u64::from(client) * 250;
            assert_eq!((low, high), (start, start + 250));
        }
    }

    proptest! {
        #[test]
        fn ids_are_rows_of_the_table(
            rows in prop_oneof![0..10_u64, 0..100_000_u64, any::<u64>(), Just(u64::MAX)],
            which in 0..8_usize,
            parameter in 0.0..4.0_f64,
            percent in 0..=100_u32,
            seed: u64,
        ) {
            let distribution = [
                Distribution::Uniform,
                Distribution::Gaussian,
                Distribution::Special { pct: percent, res: 100 - percent },
                Distribution::Special { pct: percent, res: 75 },
                Distribution::Pareto { h: parameter / 4.0 },
                Distribution::Zipfian { theta: parameter, scrambled: false },
                Distribution::Zipfian { theta: parameter, scrambled: true },
                Distribution::Zipfian { theta: 1.0 + (parameter - 2.0) * 1e-9, scrambled: true },
            ][which];
            let sampler = KeySampler::new(&access(distribution), rows);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            for _ in 0..200 {
                prop_assert!((1..=rows.max(1)).contains(&sampler.sample(&mut rng)));
            }
            let share = hot_share(&access(distribution), rows);
            prop_assert!((0.0..=1.0).contains(&share));
        }
    }
}
