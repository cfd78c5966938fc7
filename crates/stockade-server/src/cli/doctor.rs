//! `stockade doctor`: really tries each layer and each runtime.
#![expect(clippy::print_stdout, reason = "the report goes there")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use stockade_core::caller::Caller;
use stockade_core::engine::Engine;
use stockade_core::isolation::{Enforcement, Isolation, Layer};
use stockade_core::limits::LimitsRequest;
use stockade_core::outcome::Verdict;
use stockade_core::request::{RunCode, RunOptions, Wait};

use super::block_on;
use super::terminal::Style;
use crate::config::Config;
use crate::{assembly, logs};

#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Fail (exit 1) when a layer is not full or a runtime does not work
    #[arg(long)]
    strict: bool,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Report {
    user: String,
    data_dir: String,
    isolation: Option<Isolation>,
    /// Why nothing can be made at all, when that is so.
    failure: Option<String>,
    runtimes: Vec<RuntimeReport>,
    problems: Vec<ProblemReport>,
}

#[derive(Debug, Serialize)]
struct RuntimeReport {
    language: String,
    version: Option<String>,
    /// Whether a program in it ran and said what it should.
    works: bool,
    detail: String,
}

#[derive(Debug, Serialize)]
struct ProblemReport {
    what: String,
    cause: String,
    remedy: String,
}

/// A program for each language that prints `42`, and what it is called when it cannot be compiled
/// without more.
const HELLO: [(&str, &str); 13] = [
    ("python", "print(6 * 7)"),
    ("typescript", "const n: number = 6 * 7; console.log(n)"),
    ("javascript", "console.log(6 * 7)"),
    ("shell", "echo $((6 * 7))"),
    ("go", "package main\nimport \"fmt\"\nfunc main() { fmt.Println(6 * 7) }"),
    ("c", "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", 6 * 7); }"),
    ("cpp", "#include <iostream>\nint main() { std::cout << 6 * 7 << std::endl; }"),
    ("rust", "fn main() { println!(\"{}\", 6 * 7); }"),
    ("java", "class Hello { public static void main(String[] a) { System.out.println(6 * 7); } }"),
    ("ruby", "puts 6 * 7"),
    ("perl", "print 6 * 7, \"\\n\""),
    ("php", "<?php echo 6 * 7, \"\\n\";"),
    ("r", "cat(6 * 7, \"\\n\")"),
];

pub(super) fn carry_out(doctor: &Doctor, config: &Config) -> Result<ExitCode> {
    let mut log = config.log.clone();
    "off".clone_into(&mut log.level);
    logs::start(&log);
    let backend = assembly::backend(&config.data_dir)?;
    let store = assembly::store(&config.data_dir)?;
    let report = block_on(async {
        let engine = assembly::engine(config, backend, store).await?;
        let report = examine(&engine, config).await;
        engine.shutdown(Duration::ZERO).await;
        Ok(report)
    })?;
    if doctor.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        show(&report);
    }
    Ok(if doctor.strict && !report.is_perfect() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Report {
    fn is_perfect(&self) -> bool {
        let full = |isolation: &Isolation| isolation.satisfies(&Layer::ALL).is_ok();
        self.isolation.as_ref().is_some_and(full)
            && self.runtimes.iter().all(|runtime| runtime.works)
            && self.problems.is_empty()
    }
}

async fn examine(engine: &Arc<Engine>, config: &Config) -> Report {
    let user = match rustix::process::geteuid() {
        id if id.is_root() => "root".to_owned(),
        id => format!("user {}", id.as_raw()),
    };
    let problems = stockade_runtimes::installed(&config.data_dir).problems.into_iter();
    let mut report = Report {
        user,
        data_dir: config.data_dir.display().to_string(),
        isolation: None,
        failure: None,
        runtimes: Vec::new(),
        problems: problems
            .map(|p| ProblemReport { what: p.what, cause: p.cause, remedy: p.remedy })
            .collect(),
    };
    match engine.isolation().await {
        Ok(isolation) => report.isolation = Some(isolation),
        Err(error) => {
            report.failure = Some(chain(&error));
            return report;
        }
    }
    match engine.runtimes(&Caller::local()).await {
        Ok(view) => {
            for runtime in view.runtimes {
                let tried = try_runtime(engine, &runtime.language).await;
                report.runtimes.push(RuntimeReport {
                    works: tried.is_ok(),
                    detail: tried.unwrap_or_else(|cause| cause),
                    language: runtime.language,
                    version: runtime.version,
                });
            }
            let missing = view.missing.into_iter().map(|language| RuntimeReport {
                detail: "its tools are not on this machine".to_owned(),
                language,
                version: None,
                works: true,
            });
            report.runtimes.extend(missing);
        }
        Err(error) => report.failure = Some(chain(&error)),
    }
    report
}

/// Runs a program that prints 42. Gives the time it took, or what went wrong.
async fn try_runtime(engine: &Arc<Engine>, language: &str) -> std::result::Result<String, String> {
    let Some((_, code)) = HELLO.iter().find(|(known, _)| *known == language) else {
        return Ok("from the configuration; not tried".to_owned());
    };
    let request = RunCode {
        code: (*code).to_owned(),
        language: language.to_owned(),
        options: RunOptions {
            limits: LimitsRequest { memory_mb: Some(1024), ..LimitsRequest::default() },
            wait: Wait::Forever,
            ephemeral: true,
            ..RunOptions::default()
        },
        ..RunCode::default()
    };
    let view = engine.run_code(&Caller::local(), request).await.map_err(|error| chain(&error))?;
    let ok = view.verdict() == Some(Verdict::Ok) && view.stdout.text.trim() == "42";
    if ok {
        return Ok(format!("{:.2} s", view.usage.wall().as_secs_f64()));
    }
    let verdict = view.verdict().map_or("no verdict", Verdict::name);
    let last = view.stderr.text.trim().lines().last().unwrap_or_default().to_owned();
    Err(format!("{verdict} {last}").trim().to_owned())
}

fn chain(error: &stockade_core::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn show(report: &Report) {
    let style = Style::of(&std::io::stdout());
    println!("user       {}\ndata       {}", report.user, report.data_dir);
    if let Some(failure) = &report.failure {
        println!("{} {failure}", style.bad("nothing can run:"));
    }
    if let Some(isolation) = &report.isolation {
        println!("assurance  {}\n", style.strong(format!("{:?}", isolation.level)));
        for layer in Layer::ALL {
            show_layer(layer, isolation.layers.get(&layer), style);
        }
    }
    println!();
    for runtime in &report.runtimes {
        let state = match (&runtime.version, runtime.works) {
            (None, _) => style.warning("absent"),
            (Some(_), true) => style.good("works "),
            (Some(_), false) => style.bad("fails "),
        };
        let version = runtime.version.as_deref().unwrap_or_default();
        println!("{:11} {state}  {version}  {}", runtime.language, runtime.detail);
    }
    for ProblemReport { what, cause, remedy } in &report.problems {
        println!("\n{} {what}: {cause}\n  next: {remedy}", style.warning("not ready"));
    }
}

fn show_layer(layer: Layer, enforcement: Option<&Enforcement>, style: Style) {
    let name = layer.name();
    match enforcement {
        Some(Enforcement::Full { by }) => println!("{name:11} {}  {by}", style.good("full   ")),
        Some(Enforcement::Partial { by, gap, remedy }) => {
            println!("{name:11} {}  {by}", style.warning("partial"));
            println!("{:21}gap:  {gap}\n{:21}next: {remedy}", "", "");
        }
        Some(Enforcement::Absent { reason, remedy }) => {
            println!("{name:11} {}  {reason}\n{:21}next: {remedy}", style.bad("absent "), "");
        }
        None => println!("{name:11} {}", style.bad("not probed")),
    }
}
