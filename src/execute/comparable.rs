//! What a cell found and left, against what it should have found: settings, the server's life, its tables, this
//! machine. The rows are told by [`super::written`].

use std::collections::BTreeMap;
use std::time::Duration;

use crate::probe;
use crate::record::HostFacts;
use crate::target::Fingerprint;

/// What must be the same for all cells of a run, as the first one found it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ground {
    /// Shape of each table that a cell has met.
    tables: BTreeMap<String, String>,
    /// The load machine; `None`: not looked at yet.
    machine: Option<Machine>,
}

#[derive(Debug, Clone, PartialEq)]
struct Machine {
    facts: HostFacts,
    governor: Option<String>,
}

impl Machine {
    fn here() -> Self {
        Self {
            facts: HostFacts {
                // Changes by itself.
                stolen: None,
                ..probe::host::facts()
            },
            governor: probe::host::governor(),
        }
    }

    fn moved(&self, now: &Self) -> Vec<String> {
        let (then, is) = (&self.facts, &now.facts);
        let governor =
            |machine: &Self| machine.governor.clone().unwrap_or_else(|| "n/a".to_owned());
        [
            ("host name", then.name.clone(), is.name.clone()),
            ("system", then.system.clone(), is.system.clone()),
            ("processor", then.cpu.clone(), is.cpu.clone()),
            (
                "number of cores",
                then.cores.to_string(),
                is.cores.to_string(),
            ),
            ("memory", then.memory.to_string(), is.memory.to_string()),
            ("clock governor", governor(self), governor(now)),
        ]
        .into_iter()
        .filter(|(_, then, is)| then != is)
        .map(|(what, then, is)| {
            format!("{what} of the load machine was {then} at the start of the run, now {is}")
        })
        .collect()
    }
}

impl Ground {
    /// What is no longer as the first cells found it, as sentences; what is seen for the first time is kept.
    pub(super) fn shifted(&mut self, found: &Fingerprint) -> Vec<String> {
        let now = Machine::here();
        let machine = self.machine.get_or_insert_with(|| now.clone());
        let mut moved = machine.moved(&now);
        for (table, shape) in &found.tables {
            match self.tables.get(table) {
                Some(known) if known != shape => {
                    moved.push(format!(
                        "table {table} is not as the run's first cell found it"
                    ));
                }
                Some(_) => {}
                None => {
                    self.tables.insert(table.clone(), shape.clone());
                }
            }
        }
        moved
    }
}

/// What changed of the server and its tables while a cell ran, as sentences. A server that is younger than the
/// cell was restarted under it: the only sign of that when all settings are the same.
pub(super) fn disturbed(before: &Fingerprint, after: &Fingerprint, took: Duration) -> Vec<String> {
    let mut found = Vec::new();
    // Uptime counts whole seconds.
    if after.uptime + 1 < took.as_secs() || after.uptime < before.uptime {
        found.push(format!(
            "the server was restarted during the cell: it had been up for {} s at its start and for {} s at its end",
            before.uptime, after.uptime
        ));
    }
    for (table, shape) in &before.tables {
        match after.tables.get(table) {
            Some(now) if now != shape => {
                found.push(format!("table {table} was altered during the cell"));
            }
            Some(_) => {}
            None => found.push(format!("table {table} was gone after the cell")),
        }
    }
    for table in after
        .tables
        .keys()
        .filter(|table| !before.tables.contains_key(*table))
    {
        found.push(format!("table {table} appeared during the cell"));
    }
    found
}

/// Settings of the variant that a cell no longer found, as sentences: a server that was restarted under an
/// earlier cell has forgotten what SET GLOBAL told it.
pub(super) fn lost(
    expected: &BTreeMap<String, String>,
    before: &BTreeMap<String, String>,
) -> Vec<String> {
    expected
        .iter()
        .filter_map(|(name, applied)| match before.get(name) {
            Some(found) if found == applied => None,
            Some(found) => Some(format!(
                "{name} was {found} at the start of the cell, {applied} when the variant was applied"
            )),
            None => Some(format!("{name} = {applied} was gone at the start of the cell")),
        })
        .collect()
}

/// Variables that changed while a cell ran, as sentences.
pub(super) fn differences(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut found = Vec::new();
    for (name, old) in before {
        match after.get(name) {
            Some(new) if new != old => found.push(format!(
                "{name} changed from {old} to {new} during the cell"
            )),
            Some(_) => {}
            None => found.push(format!("{name} = {old} was gone after the cell")),
        }
    }
    for (name, new) in after {
        if !before.contains_key(name) {
            found.push(format!("{name} = {new} appeared during the cell"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn found(uptime: u64, tables: &[(&str, &str)]) -> Fingerprint {
        Fingerprint {
            uptime,
            tables: variables(tables),
            rows: None,
        }
    }

    #[test]
    fn a_restart_and_an_altered_table_are_seen() {
        let ten = Duration::from_secs(10);
        let before = found(100, &[("sbtest1", "a"), ("sbtest2", "b")]);
        assert!(
            disturbed(
                &before,
                &found(110, &[("sbtest1", "a"), ("sbtest2", "b")]),
                ten
            )
            .is_empty()
        );
        let texts = disturbed(
            &before,
            &found(3, &[("sbtest1", "x"), ("sbtest3", "c")]),
            ten,
        );
        assert_eq!(texts.len(), 4, "{texts:?}");
        assert!(texts[0].contains("restarted") && texts[1].contains("sbtest1 was altered"));
        // Young already when the cell began.
        let young = found(2, &[]);
        assert!(disturbed(&young, &found(12, &[]), ten).is_empty());
        assert_eq!(disturbed(&young, &found(5, &[]), ten).len(), 1);
    }

    #[test]
    fn what_later_cells_find_is_compared_with_the_first() {
        let mut ground = Ground::default();
        assert!(ground.shifted(&found(1, &[("sbtest1", "a")])).is_empty());
        assert!(
            ground
                .shifted(&found(1, &[("sbtest_bulk1", "b")]))
                .is_empty()
        );
        let texts = ground.shifted(&found(1, &[("sbtest1", "c")]));
        assert!(texts[0].contains("sbtest1"), "{texts:?}");
        let mut other = ground.clone();
        if let Some(machine) = &mut other.machine {
            machine.facts.cores += 1;
            machine.governor = Some("powersave?".into());
        }
        let texts = other.shifted(&found(1, &[]));
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].contains("number of cores"), "{texts:?}");
    }

    #[test]
    fn a_variable_that_moves_under_a_cell_is_named_with_both_values() {
        let before = variables(&[("sync_binlog", "1"), ("gone", "x"), ("same", "y")]);
        let after = variables(&[("sync_binlog", "0"), ("same", "y"), ("new", "z")]);
        assert_eq!(
            differences(&before, &after),
            [
                "gone = x was gone after the cell",
                "sync_binlog changed from 1 to 0 during the cell",
                "new = z appeared during the cell",
            ]
        );
        assert!(differences(&after, &after).is_empty());
        assert_eq!(
            lost(&before, &after),
            [
                "gone = x was gone at the start of the cell",
                "sync_binlog was 0 at the start of the cell, 1 when the variant was applied",
            ]
        );
        assert!(lost(&before, &before).is_empty());
    }
}
