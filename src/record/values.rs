//! The figures of one reading of a probe.

use std::collections::BTreeMap;
use std::ops::Index;
use std::sync::Arc;

/// Names of figures, in order, each once; shared by all samples of a table. A run of 500 cells × 300 intervals
/// has 14 million figures: a text for each would be most of the work of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(Arc<[Box<str>]>);

impl Names {
    /// Of columns in any order; also where the value of each column goes.
    pub fn of<'a>(columns: impl IntoIterator<Item = &'a str>) -> (Self, Vec<usize>) {
        let columns: Vec<&str> = columns.into_iter().collect();
        let mut sorted = columns.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let places = columns
            .iter()
            .map(|name| sorted.partition_point(|other| other < name))
            .collect();
        (Self(sorted.into_iter().map(Box::from).collect()), places)
    }
}

/// Name → value. A figure that the server or the host does not have is not in it.
#[derive(Debug, Clone)]
pub struct Values {
    names: Names,
    /// By name; not a number: not there.
    values: Box<[f64]>,
}

/// Where a name stood in the last sample that was asked for it: samples of a table share their names.
#[derive(Debug, Default)]
pub struct Place(Option<(Names, Option<usize>)>);

impl Values {
    /// `values` in the order of the columns that `places` were made for; `None`: not there.
    pub fn placed(
        names: &Names,
        places: &[usize],
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        let mut all = vec![f64::NAN; names.0.len()];
        for (&place, value) in places.iter().zip(values) {
            if let (Some(slot), Some(value)) = (all.get_mut(place), value) {
                *slot = value;
            }
        }
        Self {
            names: names.clone(),
            values: all.into_boxed_slice(),
        }
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&f64> {
        let place = self.names.0.binary_search_by(|n| (**n).cmp(name)).ok()?;
        self.values.get(place).filter(|value| !value.is_nan())
    }

    /// As [`Self::get`], for one name in many samples.
    pub fn get_again(&self, name: &str, place: &mut Place) -> Option<f64> {
        let at = match &place.0 {
            Some((names, at)) if Arc::ptr_eq(&names.0, &self.names.0) => *at,
            _ => {
                let at = self.names.0.binary_search_by(|n| (**n).cmp(name)).ok();
                place.0 = Some((self.names.clone(), at));
                at
            }
        };
        let value = *self.values.get(at?)?;
        (!value.is_nan()).then_some(value)
    }

    /// Adds a figure, or replaces it.
    pub fn insert(&mut self, name: String, value: f64) {
        if let Ok(place) = self.names.0.binary_search_by(|n| (**n).cmp(&name)) {
            self.values[place] = value;
        } else {
            let before = self.iter().map(|(name, value)| (name.to_owned(), value));
            *self = before.chain([(name, value)]).collect();
        }
    }

    /// Whether `name` is there.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        let names = self.names.0.iter().map(AsRef::as_ref);
        names
            .zip(self.values.iter().copied())
            .filter(|(_, value)| !value.is_nan())
    }

    /// Names, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// Names that start with `prefix`, in order.
    pub fn keys_under<'a>(&'a self, prefix: &str) -> impl Iterator<Item = &'a str> {
        let from = self.names.0.partition_point(|name| **name < *prefix);
        let until = from + self.names.0[from..].partition_point(|name| name.starts_with(prefix));
        (from..until)
            .filter(|place| !self.values[*place].is_nan())
            .map(|place| &*self.names.0[place])
    }
}

impl Default for Values {
    fn default() -> Self {
        BTreeMap::new().into()
    }
}

impl From<BTreeMap<String, f64>> for Values {
    fn from(map: BTreeMap<String, f64>) -> Self {
        let (names, places) = Names::of(map.keys().map(String::as_str));
        Self::placed(&names, &places, map.values().copied().map(Some))
    }
}

impl<const N: usize> From<[(String, f64); N]> for Values {
    fn from(pairs: [(String, f64); N]) -> Self {
        pairs.into_iter().collect()
    }
}

impl FromIterator<(String, f64)> for Values {
    fn from_iter<I: IntoIterator<Item = (String, f64)>>(pairs: I) -> Self {
        pairs.into_iter().collect::<BTreeMap<_, _>>().into()
    }
}

/// The same figures, whatever else is among the names.
impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Index<&str> for Values {
    type Output = f64;

    /// The value of a figure that is there; not a number if it is not.
    fn index(&self, name: &str) -> &f64 {
        self.get(name).unwrap_or(&f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_again_also_among_other_names() {
        let values = |pairs: &[(&str, f64)]| -> Values {
            pairs
                .iter()
                .map(|&(name, value)| (name.to_owned(), value))
                .collect()
        };
        let first = values(&[("a", 1.0), ("b", 2.0)]);
        let mut same = first.clone();
        same.insert("b".to_owned(), 3.0);
        let mut place = Place::default();
        for (sample, found) in [
            (&first, Some(2.0)),
            (&same, Some(3.0)),
            (&values(&[("b", 4.0)]), Some(4.0)),
            (&values(&[("a", 5.0)]), None),
            (&first, Some(2.0)),
        ] {
            assert_eq!(sample.get_again("b", &mut place), found);
        }
    }

    #[test]
    fn columns_may_come_in_any_order_and_some_may_lack() {
        let (names, places) = Names::of(["b", "a", "disk.y.ms", "disk.x.ms", "e"]);
        let values = Values::placed(
            &names,
            &places,
            [Some(2.0), Some(1.0), None, Some(3.0), Some(5.0)],
        );
        assert_eq!(values.get("a"), Some(&1.0));
        assert_eq!(values.get("b"), Some(&2.0));
        assert!(!values.contains_key("disk.y.ms") && !values.contains_key("c"));
        assert_eq!(
            values.keys().collect::<Vec<_>>(),
            ["a", "b", "disk.x.ms", "e"]
        );
        assert_eq!(
            values.keys_under("disk.").collect::<Vec<_>>(),
            ["disk.x.ms"]
        );
        assert_eq!(values.keys_under("zzz").count(), 0);
        let same: Values = [("e", 5.0), ("disk.x.ms", 3.0), ("b", 2.0), ("a", 1.0)]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect();
        assert_eq!(values, same);
        assert_ne!(values, Values::default());
        let mut more = values.clone();
        more.insert("c".to_owned(), 4.0);
        more.insert("a".to_owned(), 7.0);
        let figures = [&more, &values].map(|v| (v.get("c").copied(), v.get("a").copied()));
        assert_eq!(figures, [(Some(4.0), Some(7.0)), (None, Some(1.0))]);
        assert_eq!(more.keys().count(), 5);
    }
}
