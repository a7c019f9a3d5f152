//! What the plan asks for and this server cannot do, found before anything is touched.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use super::TargetError;
use super::access::{self, Access};
use super::load_account;
use super::ranges;
use super::server::Server;
use super::snapshot::{OUTSIDE, SHAPING};
use super::variables::{nearest, option, option_effect};
use crate::plan::{Plan, Setting, Variant};
use crate::record::Flavour;

/// The ways to change what only a start of the server changes.
pub(super) const START_UP_HINT: &str = "add hooks = { apply = \"…\" } under [target], or operator = true to the variant, or test on a private server ([target.managed])";

/// Something that the plan asks for and this server or account cannot do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The variant; `None`: the whole plan.
    pub variant: Option<String>,
    /// What cannot be done and why.
    pub text: String,
    /// A way out.
    pub hint: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(variant) = &self.variant {
            write!(f, "variant `{variant}`: ")?;
        }
        write!(f, "{}\nhint: {}", self.text, self.hint)
    }
}

/// Everything in the plan that this server or these accounts cannot do: unknown, session-only and
/// read-only variables, start-up settings without a way to restart, missing privileges, a load account that does
/// not get in. Changes nothing.
///
/// # Errors
/// The server does not answer.
pub fn check_support(plan: &Plan, server: &mut Server) -> Result<Vec<Problem>, TargetError> {
    let mut problems = Vec::new();
    let mut check = Check {
        known: server.identity().variables.clone(),
        help: None,
        server,
    };
    for setting in &plan.target.set {
        let private = check.server.is_managed();
        let found = check.global(setting, |_, read_only| !read_only || private)?;
        problems.extend(found.map(|(text, hint)| Problem {
            variant: None,
            text,
            hint,
        }));
    }
    for variant in &plan.variants {
        let found = if check.server.is_managed() {
            check.private_variant(variant)?
        } else {
            check.external_variant(variant)?
        };
        problems.extend(found.into_iter().map(|(text, hint)| Problem {
            variant: Some(variant.name.clone()),
            text,
            hint,
        }));
    }
    if !check.server.is_managed() {
        problems.extend(load_account::problems(plan, server)?);
    }
    Ok(problems)
}

type Found = (String, String);

struct Check<'a> {
    server: &'a mut Server,
    known: BTreeMap<String, String>,
    /// What `--verbose --help` of a private server says.
    help: Option<String>,
}

impl Check<'_> {
    /// The problem with setting a global variable; `possible` decides about the variable's being
    /// read-only.
    fn global(
        &mut self,
        setting: &Setting,
        possible: impl FnOnce(&mut Server, bool) -> bool,
    ) -> Result<Option<Found>, TargetError> {
        let name = &setting.name;
        if !self.known.contains_key(name) {
            return Ok(Some((
                format!("this server has no variable `{name}`"),
                match nearest(name, self.known.keys()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!(
                        "SHOW GLOBAL VARIABLES lists what {} has",
                        self.server.identity.version
                    ),
                },
            )));
        }
        Ok(match access::global(&mut self.server.control, name)? {
            access @ (Access::Settable | Access::ReadOnly) => {
                if possible(self.server, access == Access::ReadOnly) {
                    ranges::refused(self.server, setting)?
                } else {
                    Some(self.start_up_only(name))
                }
            }
            Access::Session | Access::Unknown => Some((
                format!("`{name}` has no global value that could be set"),
                "leave it out, or name a global variable".to_owned(),
            )),
            Access::Denied(reason) => Some((
                format!(
                    "account `{}` may not set `{name}`: {reason}",
                    self.server.admin.user
                ),
                "`capbench grants PLAN` prints the rights this plan needs; state the account as admin under [target]"
                    .to_owned(),
            )),
        })
    }

    fn start_up_only(&self, name: &str) -> Found {
        let why = match self.server.identity.flavour {
            Flavour::MariaDb => ", and MariaDB has no SET PERSIST",
            Flavour::MySql => "",
        };
        (
            format!("variable `{name}` can only be changed at start-up{why}"),
            START_UP_HINT.to_owned(),
        )
    }

    fn private_variant(&mut self, variant: &Variant) -> Result<Vec<Found>, TargetError> {
        let mut problems = Vec::new();
        for setting in variant.set.iter().chain(&variant.options) {
            let name = setting.name.as_str();
            if SHAPING.contains(&name) || OUTSIDE.contains(&name) {
                problems.push((
                    format!("`{name}` shapes the data directory, which all variants of a private server share"),
                    "state it in [target.managed] options, and compare two plans".to_owned(),
                ));
            }
        }
        for setting in &variant.set {
            problems.extend(self.global(setting, |_, _| true)?);
        }
        for setting in &variant.options {
            if option_effect(setting, &self.known).is_none() && !self.in_help(&setting.name) {
                problems.push((
                    format!("the server program has no option `{}`", option(setting)),
                    match nearest(&setting.name, self.known.keys()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => "its `--verbose --help` lists what it has".to_owned(),
                    },
                ));
            }
        }
        Ok(problems)
    }

    /// Whether the private server's program lists an option of this name.
    fn in_help(&mut self, name: &str) -> bool {
        let help = self.help.get_or_insert_with(|| {
            let Some(private) = &self.server.private else {
                return String::new();
            };
            Command::new(private.program())
                .args(["--no-defaults", "--verbose", "--help"])
                .current_dir(private.folder())
                .stdin(Stdio::null())
                .output()
                .map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
                .unwrap_or_default()
        });
        // Without a list nothing can be refused; the start will tell.
        help.is_empty() || lists_option(help, name)
    }

    fn external_variant(&mut self, variant: &Variant) -> Result<Vec<Found>, TargetError> {
        let mut problems = Vec::new();
        let (operator, hooks) = (variant.operator, self.server.hooks.clone());
        let flavour = self.server.identity.flavour;
        let can_restart = operator || hooks.restart.is_some() || hooks.apply.is_some();
        if variant.restart && !can_restart {
            problems.push((
                "it wants a restart, and the plan has no hook that restarts this server".to_owned(),
                "add hooks = { restart = \"…\" } under [target], or operator = true to the variant"
                    .to_owned(),
            ));
        }
        if !variant.options.is_empty() && !operator && hooks.apply.is_none() {
            let options: Vec<String> = variant.options.iter().map(option).collect();
            problems.push((
                format!(
                    "it needs start-up options `{}`, which capbench cannot give to a server it did not start",
                    options.join(" ")
                ),
                START_UP_HINT.to_owned(),
            ));
        }
        for setting in variant.set.iter().chain(&variant.options) {
            let text = option(setting);
            if hooks.apply.is_some() && text.contains(char::is_whitespace) {
                problems.push((
                    format!(
                        "`{text}` contains a blank, which separates options in CAPBENCH_OPTIONS"
                    ),
                    "write the value without blanks".to_owned(),
                ));
            }
        }
        let by_hand = operator || hooks.apply.is_some();
        for setting in &variant.set {
            if operator {
                if !self.known.contains_key(&setting.name) {
                    problems.extend(self.global(setting, |_, _| true)?);
                }
                continue;
            }
            let mut persist = None;
            let found = self.global(setting, |server, read_only| {
                if flavour == Flavour::MySql && variant.restart {
                    persist = Some(access::persist(&mut server.control, &setting.name));
                }
                let persistable = matches!(persist, Some(Ok(Access::Settable)));
                !read_only || by_hand || persistable
            })?;
            match persist.transpose()? {
                Some(Access::Denied(reason)) if !by_hand && can_restart => problems.push((
                    format!(
                        "account `{}` may not persist `{}`: {reason}",
                        self.server.admin.user, setting.name
                    ),
                    "`capbench grants PLAN` prints the rights this plan needs".to_owned(),
                )),
                Some(Access::Settable) => {
                    problems.extend(self.persisted_unreadable(&setting.name)?);
                    problems.extend(found);
                }
                _ => problems.extend(found),
            }
        }
        Ok(problems)
    }

    /// What is persisted must be read before it is changed, or it could not be put back.
    fn persisted_unreadable(&mut self, name: &str) -> Result<Option<Found>, TargetError> {
        let sql = "SELECT COUNT(*) FROM performance_schema.persisted_variables";
        match self.server.control.value(sql) {
            Ok(_) => Ok(None),
            Err(error) if error.code().is_some() => Ok(Some((
                format!(
                    "what is persisted for `{name}` cannot be read, so it could not be put back: {error}"
                ),
                format!(
                    "GRANT SELECT ON performance_schema.persisted_variables TO the account `{}`",
                    self.server.admin.user
                ),
            ))),
            Err(error) => Err(error),
        }
    }
}

/// Whether `--verbose --help` lists an option, in either of its spellings.
fn lists_option(help: &str, name: &str) -> bool {
    let name = name.replace('_', "-");
    let name = name.strip_prefix("loose-").unwrap_or(&name);
    let bare = ["skip-", "disable-", "enable-"]
        .iter()
        .find_map(|p| name.strip_prefix(p))
        .unwrap_or(name);
    help.lines().any(|line| {
        line.split_whitespace()
            .take(2)
            .map(|word| {
                word.trim_start_matches("--")
                    .split(['=', '[', ','])
                    .next()
                    .unwrap_or_default()
            })
            .any(|word| word == name || word == bare)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_options_in_any_spelling() {
        let help = "  --gdb               Set up signals usable for debugging.\n  -W, --log-warnings[=#] x\n\
                    \x20 --name=value\nVariables (--variable-name=value)\nsync-binlog      0\n";
        for name in [
            "gdb",
            "sync_binlog",
            "skip_gdb",
            "loose_gdb",
            "log_warnings",
            "name",
        ] {
            assert!(lists_option(help, name), "{name}");
        }
        assert!(!lists_option(help, "gdbb"));
        assert!(!lists_option(help, "signals"));
    }
}
