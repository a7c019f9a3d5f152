//! Dangers that a run refuses until the plan's author has taken each on by its name.

use super::Guard;
use super::diagnostic::Diagnostic;
use super::validate::twice;
use super::wire::Fields;

/// A danger that is found before anything is changed. What cannot be seen is one of its own: it is not
/// "nothing there".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Other clients are connected.
    OtherClients,
    /// Sessions of others cannot be seen.
    UnseenClients,
    /// Schemas of others hold tables.
    OtherSchemas,
    /// Schemas of others cannot be seen.
    UnseenSchemas,
    /// Replicas, or other members of a cluster, follow this server.
    Replicas,
    /// Whether replicas follow cannot be seen.
    UnseenReplicas,
    /// The server follows another.
    IsReplica,
    /// Whether the server follows another cannot be seen.
    UnseenSource,
    /// The server is set to refuse writes.
    ReadOnly,
    /// A backup is being taken.
    Backup,
    /// Whether a backup is being taken cannot be seen.
    UnseenBackup,
    /// Little is free on the disk of the data directory.
    LowDisk,
    /// The server's disk cannot be seen.
    UnseenDisk,
    /// The plan's database holds tables that are not capbench's.
    ForeignTables,
    /// A limit of `[guard]` cannot be watched here.
    UnseenLimits,
}

impl Risk {
    /// All, in the order of the documentation.
    pub const ALL: [Self; 15] = [
        Self::OtherClients,
        Self::UnseenClients,
        Self::OtherSchemas,
        Self::UnseenSchemas,
        Self::Replicas,
        Self::UnseenReplicas,
        Self::IsReplica,
        Self::UnseenSource,
        Self::ReadOnly,
        Self::Backup,
        Self::UnseenBackup,
        Self::LowDisk,
        Self::UnseenDisk,
        Self::ForeignTables,
        Self::UnseenLimits,
    ];

    /// Its name in a plan.
    pub fn name(self) -> &'static str {
        match self {
            Self::OtherClients => "other-clients",
            Self::UnseenClients => "unseen-clients",
            Self::OtherSchemas => "other-schemas",
            Self::UnseenSchemas => "unseen-schemas",
            Self::Replicas => "replicas",
            Self::UnseenReplicas => "unseen-replicas",
            Self::IsReplica => "is-replica",
            Self::UnseenSource => "unseen-source",
            Self::ReadOnly => "read-only",
            Self::Backup => "backup",
            Self::UnseenBackup => "unseen-backup",
            Self::LowDisk => "low-disk",
            Self::UnseenDisk => "unseen-disk",
            Self::ForeignTables => "foreign-tables",
            Self::UnseenLimits => "unseen-limits",
        }
    }

    /// The danger of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|risk| risk.name() == name)
    }
}

impl Guard {
    /// Whether the plan takes this danger on.
    pub fn acknowledges(&self, risk: Risk) -> bool {
        self.acknowledge.contains(&risk)
    }
}

/// The dangers that a plan takes on.
pub(super) fn acknowledge(fields: &Fields, problems: &mut Vec<Diagnostic>) -> Vec<Risk> {
    let path = "guard.acknowledge";
    let items = fields.texts(path);
    let known: Vec<&str> = Risk::ALL.iter().map(|risk| risk.name()).collect();
    for (i, item) in items.iter().enumerate() {
        if Risk::named(&item.value).is_none() {
            let meant = super::suggest::nearest(&item.value, known.iter().copied());
            problems.push(
                Diagnostic::error(
                    item.at.clone(),
                    format!("`{path}`: there is no danger `{}`", item.value),
                )
                .hint(match meant {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("the names are {}", known.join(", ")),
                }),
            );
        } else if let Some(first) = items[..i].iter().find(|e| e.value == item.value) {
            problems.push(twice(path, &item.value, item, first));
        }
    }
    items
        .iter()
        .filter_map(|item| Risk::named(&item.value))
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_names_every_danger() {
        let meaning = super::super::keys::find("guard.acknowledge")
            .unwrap()
            .meaning;
        for risk in Risk::ALL {
            assert_eq!(Risk::named(risk.name()), Some(risk));
            assert!(meaning.contains(risk.name()), "{}", risk.name());
        }
    }
}
