//! Prepared data kept between runs: found before a private server is made, listed and cleared by hand.

use anyhow::anyhow;

use super::failure::Failure;
use super::open_server_on;
use crate::cli::{CacheCommand, Exit};
use crate::execute;
use crate::interrupt::Interrupt;
use crate::plan::{Place, Plan};
use crate::target::{self, Cache, DataSource, Journal, Server};
use crate::terminal::Terminal;
use crate::units::Bytes;

/// Opens the plan's server for a run; a private one on the data of an earlier run, if that was kept.
pub(crate) fn open_for_data(
    plan: &Plan,
    journal: &mut Journal,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Server, Failure> {
    let source = source(plan, terminal)?;
    let Some((cache, key)) = source.cache.clone().filter(|_| source.found.is_some()) else {
        return open_server_on(plan, source, journal, terminal, interrupt);
    };
    match open_server_on(plan, source, journal, terminal, interrupt) {
        Err(failure) if failure.exit == Exit::RunFailed => {
            terminal.warn(format_args!(
                "the private server did not start on the data that was kept, which is forgotten: {}",
                failure.reason()
            ));
            cache.forget(&key);
            let source = DataSource {
                cache: Some((cache, key)),
                found: None,
            };
            open_server_on(plan, source, journal, terminal, interrupt)
        }
        other => other,
    }
}

/// Where this plan's data is kept, and what of it there is.
fn source(plan: &Plan, terminal: &Terminal) -> Result<DataSource, Failure> {
    let Place::Managed(managed) = &plan.target.place else {
        return Ok(DataSource::default());
    };
    let cache = if managed.cache { user_cache()? } else { None };
    let Some(cache) = cache else {
        return Ok(DataSource::default());
    };
    let Some(key) =
        target::data_key(plan, managed, &execute::identity(plan)).map_err(Failure::target)?
    else {
        return Ok(DataSource::default());
    };
    let found = match cache.find(&key) {
        Ok(found) => found,
        Err(why) => {
            terminal.warn(format_args!("kept data is not used: {why}"));
            None
        }
    };
    if found.is_some() {
        terminal.say(format_args!(
            "the data of an earlier run was kept in {}",
            cache.folder().display()
        ));
    }
    Ok(DataSource {
        cache: Some((cache, key)),
        found,
    })
}

fn user_cache() -> Result<Option<Cache>, Failure> {
    Cache::of_user().map_err(|why| Failure::input(anyhow!(why)))
}

/// Whether data of this plan would be kept.
pub(super) fn keeps(plan: &Plan) -> Result<bool, Failure> {
    Ok(match &plan.target.place {
        Place::Managed(managed) if managed.cache => user_cache()?.is_some(),
        _ => false,
    })
}

/// `capbench cache …`.
pub(super) fn cache(command: CacheCommand) -> Result<Exit, Failure> {
    let Some(cache) = user_cache()? else {
        Terminal::data(&format!(
            "nothing is kept: {} is 0, or there is no cache folder",
            target::SIZE_VARIABLE
        ));
        return Ok(Exit::Passed);
    };
    let failed =
        |error: std::io::Error| Failure::run(anyhow!("{}: {error}", cache.folder().display()));
    match command {
        CacheCommand::List => {
            let entries = cache.entries().map_err(failed)?;
            let total = Bytes(entries.iter().map(|entry| entry.bytes.0).sum());
            if !entries.is_empty() {
                let mut table = comfy_table::Table::new();
                table.load_style(comfy_table::TableStyle::new());
                table.set_header(["size", "made", "last used", "data"]);
                for entry in &entries {
                    let used = jiff::Timestamp::try_from(entry.used_at)
                        .and_then(|at| at.round(jiff::Unit::Second))
                        .map_or_else(|_| "n/a".to_owned(), |at| at.to_string());
                    table.add_row([
                        entry.bytes.to_string(),
                        entry.made_at.clone(),
                        if entry.in_use { "now".to_owned() } else { used },
                        entry.title.clone(),
                    ]);
                }
                Terminal::data(&format!("{}\n", table.trim_fmt()));
            }
            Terminal::data(&format!(
                "{} of at most {} in {}",
                total,
                cache.limit(),
                cache.folder().display()
            ));
        }
        CacheCommand::Clear => {
            let (gone, used) = cache.clear().map_err(failed)?;
            let stay = match used {
                0 => String::new(),
                n => format!("; {n} in use by a run, which stay"),
            };
            Terminal::data(&format!(
                "removed {gone} data sets from {}{stay}",
                cache.folder().display()
            ));
        }
    }
    Ok(Exit::Passed)
}
