//! What a run would change on a server's settings, for `capbench check`: the statements in order, with the
//! present value and the way back. Asks the server, changes nothing.

use super::access::{self, Access};
use super::change::{current, persisted_value};
use super::lease::LEASE_TABLE;
use super::settled::DIRTY_LIMITS;
use super::variables::{literal, option, shown};
use super::{Server, TargetError};
use crate::plan::{Plan, Setting, Variant};

/// One statement or command that changes state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The statement as it would be sent, or the command as it would be run.
    pub statement: String,
    /// What there is now, and how it is put back.
    pub note: String,
}

impl Planned {
    /// A statement and what is to be said about it.
    pub fn new(statement: impl Into<String>, note: impl Into<String>) -> Self {
        Self {
            statement: statement.into(),
            note: note.into(),
        }
    }
}

impl std::fmt::Display for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{};", self.statement)?;
        if self.note.is_empty() {
            return Ok(());
        }
        write!(f, "  -- {}", self.note)
    }
}

/// The changes of settings, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannedSettings {
    /// Before everything else, for the whole run.
    pub run: Vec<Planned>,
    /// By variant, each time it is applied.
    pub variants: Vec<(String, Vec<Planned>)>,
    /// Before each warm-up, put back at once.
    pub settle: Vec<Planned>,
    /// After everything else.
    pub end: Vec<Planned>,
}

/// What the plan would change on this server's settings; nothing on a private server, which is started with
/// them and goes away with them.
///
/// # Errors
/// The server does not answer; a variant cannot be applied here.
pub fn planned(plan: &Plan, server: &mut Server) -> Result<PlannedSettings, TargetError> {
    let mut all = PlannedSettings::default();
    if server.is_managed() {
        return Ok(all);
    }
    for setting in &plan.target.set {
        all.run.push(set_global(server, setting)?);
    }
    for variant in &plan.variants {
        let changes = of_variant(server, variant)?;
        if !changes.is_empty() {
            all.variants.push((variant.name.clone(), changes));
        }
    }
    if !plan.warmup.settle.0.is_zero() {
        for name in DIRTY_LIMITS {
            let now = current(&mut server.control, name)?;
            all.settle.push(Planned::new(
                format!("SET GLOBAL {name} = 0"),
                format!("{now} now, and again once the dirty pages are written; only where there are any"),
            ));
        }
    }
    if !all.run.is_empty() || !all.variants.is_empty() || !all.settle.is_empty() {
        let table = format!(
            "`{}`.{LEASE_TABLE}",
            plan.target.database.replace('`', "``")
        );
        all.run.insert(
            0,
            Planned::new(
                format!("CREATE TABLE {table} (…)"),
                "one row a change, with the old value, before it is made",
            ),
        );
        all.end.push(Planned::new(
            format!("DROP TABLE {table}"),
            "once everything is put back",
        ));
    }
    Ok(all)
}

fn set_global(server: &mut Server, setting: &Setting) -> Result<Planned, TargetError> {
    let name = &setting.name;
    let now = current(&mut server.control, name)?;
    Ok(Planned::new(
        format!("SET GLOBAL {name} = {}", literal(&shown(&setting.value))),
        format!("{now} now; put back by SET GLOBAL {name} = {now}"),
    ))
}

fn of_variant(server: &mut Server, variant: &Variant) -> Result<Vec<Planned>, TargetError> {
    let mut all = Vec::new();
    let list = |settings: &[Setting]| settings.iter().map(option).collect::<Vec<_>>().join(" ");
    if variant.operator {
        let both: Vec<Setting> = variant
            .set
            .iter()
            .chain(&variant.options)
            .cloned()
            .collect();
        all.push(Planned::new(
            format!("(a person) {}", list(&both)),
            "capbench asks for it, and asks for it to be put back",
        ));
        return Ok(all);
    }
    let route = server.route(variant)?;
    for (setting, read_only) in &route.persist {
        let name = &setting.name;
        let scope = if *read_only {
            "PERSIST_ONLY"
        } else {
            "PERSIST"
        };
        let back = match persisted_value(&mut server.control, name)? {
            Some(old) => format!("SET PERSIST_ONLY {name} = {}", literal(&old)),
            None => format!("RESET PERSIST {name}"),
        };
        let now = current(&mut server.control, name)?;
        let back = if *read_only {
            back
        } else {
            format!("{back}; SET GLOBAL {name} = {now}")
        };
        all.push(Planned::new(
            format!("SET {scope} {name} = {}", literal(&shown(&setting.value))),
            format!("{now} now; put back by {back}"),
        ));
    }
    let hooks = server.hooks.clone();
    if !route.options.is_empty() {
        all.push(Planned::new(
            format!("hooks.apply: {}", hooks.apply.unwrap_or_default()),
            format!(
                "CAPBENCH_OPTIONS='{}'; put back by the same without options",
                list(&route.options)
            ),
        ));
    }
    if route.restart
        && let Some(command) = hooks.restart
    {
        all.push(Planned::new(format!("hooks.restart: {command}"), ""));
    }
    for setting in &route.global {
        // A variable that can only be asked once the server runs with other options is told without its value.
        if access::global(&mut server.control, &setting.name)? == Access::Settable {
            all.push(set_global(server, setting)?);
        }
    }
    Ok(all)
}
