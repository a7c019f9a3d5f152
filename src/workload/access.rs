//! How row ids are drawn.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How row ids are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// The distribution.
    pub distribution: Distribution,
}

/// Distributions over row ids (spec: sysbench's, with zipfian also scrambled).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// Mean of 12 uniforms.
    Gaussian,
    /// sysbench 1.0's default: 75 % of hits on 1 % of the ids in the middle.
    Special {
        /// Size of the hot range in percent (1).
        pct: u32,
        /// Share of hits in the hot range in percent (75).
        res: u32,
    },
    /// u^p with p = ln h / ln(1−h).
    Pareto {
        /// h (0.2): 1−h of the hits fall in the lowest h of the ids.
        h: f64,
    },
    /// P(k) ∝ k^−θ.
    Zipfian {
        /// θ (0.8), at least 0.
        theta: f64,
        /// Hot ids are spread over the table instead of standing side by side.
        scrambled: bool,
    },
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.distribution {
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Gaussian => f.write_str("gaussian"),
            Distribution::Special { pct, res } => write!(f, "special (pct {pct}, res {res})"),
            Distribution::Pareto { h } => write!(f, "pareto (h {h})"),
            Distribution::Zipfian { theta, scrambled } => {
                let scrambled = if scrambled { ", scrambled" } else { "" };
                write!(f, "zipfian (theta {theta}{scrambled})")
            }
        }
    }
}
