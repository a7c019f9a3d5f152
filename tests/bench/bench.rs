//! `make bench`: capbench and sysbench 1.0.20 in turn on the same private server, tables and statements.
//!
//! Each measurement is a process of its own, of sysbench or of this program (see `child`), watched from
//! outside in the same way. Prints a table of ratios with their spread and writes it as Markdown.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::missing_docs_in_private_items,
    reason = "a program of its own, beside the library"
)]

mod child;
#[path = "../report_run/large_run.rs"]
mod large_run;
mod machine;
mod process;
mod report;
mod resets;
mod settings;
mod stats;
mod subject;
#[path = "../report_run/support.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    clippy::wildcard_imports,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "made for tests"
)]
mod support;
mod tasks;
mod tools;
mod trials;

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use report::Report;
use settings::Settings;
use subject::Subject;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        Some(child::RUN) => child::run(),
        Some(child::LOAD) => child::load(),
        _ => Settings::parse(&arguments).and_then(|settings| bench(&settings)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(settings: &Settings) -> Result<()> {
    let tool = tools::sysbench_version()?;
    let mut report = Report::new(settings, &tool);
    for binary in settings.servers()? {
        let mut subject = Subject::start(settings, &binary)?;
        eprintln!("{}", subject.title());
        report.server(&subject);
        trials::throughput(settings, &mut subject, &mut report)?;
        trials::memory(settings, &mut subject, &mut report)?;
        tasks::start(settings, &mut subject, &mut report)?;
        trials::loading(settings, &mut subject, &mut report)?;
        resets::resetting(settings, &mut subject, &mut report)?;
        subject.close()?;
        // What comes after may fail; this took its time.
        save(settings, &report)?;
    }
    report.section("Of capbench alone");
    tasks::large_report(settings, &mut report)?;
    println!("{}", report.text());
    save(settings, &report)
}

fn save(settings: &Settings, report: &Report) -> Result<()> {
    if let Some(path) = &settings.write {
        std::fs::write(path, report.markdown())
            .with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("written to {}", path.display());
    }
    Ok(())
}
