//! Bad requests: each is refused with the field, the cause and the next step.

use super::*;
use crate::caller::Caller;
use crate::error::Error;
use crate::limits::LimitsRequest;
use crate::request::{ContinueRun, CreateSandbox, StdinRequest};

#[track_caller]
fn is_invalid<T: std::fmt::Debug>(result: Result<T, Error>, field: &str, says: &str) {
    match result {
        Err(Error::Invalid { field: seen, reason }) => {
            assert_eq!(seen, field, "{reason}");
            assert!(reason.contains(says), "{says:?} not in {reason:?}");
        }
        other => panic!("expected {field}: {other:?}"),
    }
}

#[track_caller]
fn has_code<T: std::fmt::Debug>(result: Result<T, Error>, code: &str, says: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    assert!(error.to_string().contains(says), "{says:?} not in {error}");
}

async fn run(world: &World, request: RunCode) -> Result<RunView, Error> {
    world.engine.run_code(&user("me"), request).await
}

#[tokio::test(start_paused = true)]
async fn code_and_language() {
    let world = world().await;
    let py = |text: &str| code("python", text, options());
    is_invalid(run(&world, py("")).await, "code", "empty");
    is_invalid(run(&world, py(" \n\t")).await, "code", "empty");
    is_invalid(run(&world, py("a\0b")).await, "code", "NUL");
    is_invalid(run(&world, py(&"x".repeat((16 << 20) + 1))).await, "code", "16 MiB");
    let pyton = code("pyton", "x", options());
    is_invalid(run(&world, pyton).await, "language", "did you mean `python`?");
    let far = code("zzz", "x", options());
    is_invalid(run(&world, far).await, "language", "known are python, typescript, absent, hungry");
    is_invalid(run(&world, code("", "x", options())).await, "language", "known are");
    assert!(run(&world, code(" PYTHON ", "echo", options())).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn arguments_environment_and_input() {
    let world = world().await;
    let args = |arg: String| RunCode { args: vec![arg], ..code("python", "echo", options()) };
    is_invalid(run(&world, args("a\0".into())).await, "args", "NUL");
    is_invalid(run(&world, args("x".repeat(128 << 10))).await, "args", "128 KiB");
    let many = RunCode { args: vec!["x".repeat(99 << 10); 12], ..code("python", "x", options()) };
    is_invalid(run(&world, many).await, "args", "1 MiB");
    for (name, value, says) in [
        ("1A", "x", "is no name"),
        ("", "x", "is no name"),
        ("A=B", "x", "is no name"),
        ("A-B", "x", "is no name"),
        ("Ä", "x", "is no name"),
        ("A\0", "x", "is no name"),
        ("A", "x\0", "NUL"),
        ("FIXED", "x", "set by the operator"),
    ] {
        let env = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let request = code("python", "echo", RunOptions { env, ..options() });
        is_invalid(run(&world, request).await, "env", says);
    }
    let env = BTreeMap::from([("LD_PRELOAD".to_owned(), "x".to_owned())]);
    assert!(run(&world, code("python", "echo", RunOptions { env, ..options() })).await.is_ok());
    let stdin = Some(StdinRequest::Text("x".repeat((16 << 20) + 1)));
    let request = code("python", "cat", RunOptions { stdin, ..options() });
    is_invalid(run(&world, request).await, "stdin", "upload");
}

#[tokio::test(start_paused = true)]
async fn commands() {
    let world = world().await;
    let send = async |command: CommandLine| {
        let request = RunCommand { command, options: options() };
        world.engine.run_command(&user("me"), request).await
    };
    let argv = |words: &[&str]| CommandLine::Argv(words.iter().map(|w| (*w).to_owned()).collect());
    is_invalid(send(CommandLine::Shell(" ".into())).await, "command", "empty");
    is_invalid(send(CommandLine::Shell("a\0".into())).await, "command", "NUL");
    is_invalid(send(argv(&[])).await, "argv", "no program");
    is_invalid(send(argv(&[""])).await, "argv", "no program");
    is_invalid(send(argv(&["a", "\0"])).await, "argv", "NUL");
}

#[tokio::test(start_paused = true)]
async fn limits_and_waiting() {
    let world = world().await;
    let with = |limits: LimitsRequest| code("python", "echo", RunOptions { limits, ..options() });
    let none = LimitsRequest::default;
    for timeout_s in [0.0, -1.0, 601.0, 1e300, f64::NAN, f64::INFINITY] {
        let limits = LimitsRequest { timeout_s: Some(timeout_s), ..none() };
        is_invalid(run(&world, with(limits)).await, "timeout_s", "outside");
    }
    for memory_mb in [0, 4097, u64::MAX] {
        let limits = LimitsRequest { memory_mb: Some(memory_mb), ..none() };
        is_invalid(run(&world, with(limits)).await, "memory_mb", "outside");
    }
    for cpus in [0.0, -1.0, 5.0, f64::NAN] {
        let limits = LimitsRequest { cpus: Some(cpus), ..none() };
        is_invalid(run(&world, with(limits)).await, "cpus", "outside");
    }
    let limits = LimitsRequest { pids: Some(0), ..none() };
    is_invalid(run(&world, with(limits)).await, "pids", "outside");
    for seconds in [-1.0, 3601.0, f64::NAN] {
        let wait = Wait::Seconds(seconds);
        let request = code("python", "echo", RunOptions { wait, ..options() });
        is_invalid(run(&world, request).await, "wait_s", "outside");
    }
    let hungry = code("hungry", "echo", options());
    is_invalid(run(&world, hungry).await, "memory_mb", "at least 2048");
    let limits = LimitsRequest { memory_mb: Some(2048), ..none() };
    let fed = code("hungry", "echo", RunOptions { limits, ..options() });
    assert!(run(&world, fed).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn places() {
    let world = world().await;
    let create = CreateSandbox {
        name: Some("box".to_owned()),
        workspace: Some("mine".to_owned()),
        ..CreateSandbox::default()
    };
    world.engine.create_sandbox(&user("me"), create).await.unwrap();
    let sandbox = Some("box".to_owned());
    let inside = RunOptions { sandbox, ..options() };
    let send = async |options: RunOptions| {
        world.engine.run_command(&user("me"), shell("echo", options)).await
    };
    let workspace = |name: &str| Some(name.to_owned());
    let other = RunOptions { workspace: workspace("other"), ..inside.clone() };
    is_invalid(send(other).await, "workspace", "`mine`");
    assert!(send(RunOptions { workspace: workspace("mine"), ..inside.clone() }).await.is_ok());
    for name in ["", "a b", "../x", "ä"] {
        let bad = RunOptions { workspace: workspace(name), ..options() };
        is_invalid(send(bad).await, "workspace", "1 to 64");
    }
    let network = RunOptions { network: Some(NetworkRequest::Open), ..inside.clone() };
    has_code(send(network).await, "conflict", "create another one");
    for (field, limits) in [
        ("memory_mb", LimitsRequest { memory_mb: Some(64), ..LimitsRequest::default() }),
        ("cpus", LimitsRequest { cpus: Some(1.0), ..LimitsRequest::default() }),
        ("pids", LimitsRequest { pids: Some(9), ..LimitsRequest::default() }),
    ] {
        let asked = RunOptions { limits, ..inside.clone() };
        is_invalid(send(asked).await, field, "create a sandbox with it");
    }
    let limits = LimitsRequest { timeout_s: Some(60.0), ..LimitsRequest::default() };
    assert!(send(RunOptions { limits, ..inside.clone() }).await.is_ok());
    for (workdir, says) in [("missing", "make it first"), ("../x", "inside"), ("/etc", "inside")] {
        let bad = RunOptions { workdir: Some(workdir.to_owned()), ..inside.clone() };
        is_invalid(send(bad).await, "workdir", says);
    }
}

#[tokio::test(start_paused = true)]
async fn networks_packages_and_images() {
    let world = world().await;
    let with = |network| code("python", "echo", RunOptions { network: Some(network), ..options() });
    assert!(run(&world, with(NetworkRequest::None)).await.is_ok());
    assert!(run(&world, with(NetworkRequest::Open)).await.is_ok());
    has_code(run(&world, with(NetworkRequest::Packages)).await, "denied", "[policy] networks");
    let closed = world_with(|s| s.networks.clear()).await;
    has_code(run(&closed, with(NetworkRequest::Open)).await, "denied", "\"open\"");
    let packages = |names: &[&str]| RunCode {
        packages: names.iter().map(|name| (*name).to_owned()).collect(),
        ..code("python", "echo", options())
    };
    assert!(run(&world, packages(&["NumPy>=2", "numpy"])).await.is_ok());
    has_code(run(&world, packages(&["numpy", "polars"])).await, "unsupported", "polars");
    let image =
        |image: &str| CreateSandbox { image: Some(image.to_owned()), ..CreateSandbox::default() };
    let create = async |request| world.engine.create_sandbox(&user("me"), request).await;
    has_code(create(image("/images/two")).await, "denied", "image roots");
    assert_eq!(create(image("/images/one")).await.unwrap().image, "/images/one");
    assert_eq!(create(image("host")).await.unwrap().image, "host");
    let named = CreateSandbox { name: Some("a b".into()), ..CreateSandbox::default() };
    is_invalid(create(named).await, "name", "1 to 64");
    for ttl_s in [0, 7201, u64::MAX] {
        let lives = CreateSandbox { ttl_s: Some(ttl_s), ..CreateSandbox::default() };
        is_invalid(create(lives).await, "ttl_s", "outside");
    }
}

#[tokio::test(start_paused = true)]
async fn handles_keys_and_signals() {
    let world = world().await;
    for bad in ["", "a b", "../x", "run-\0"] {
        is_invalid(world.engine.run(&user("me"), bad).await, "run", "1 to 64");
        is_invalid(world.engine.sandbox(&user("me"), bad).await, "sandbox", "1 to 64");
    }
    has_code(world.engine.run(&user("me"), "run-nope").await, "not_found", "no run `run-nope`");
    for key in [String::new(), "x".repeat(257), "a\0".to_owned()] {
        let keyed = RunOptions { idempotency_key: Some(key), ..options() };
        is_invalid(run(&world, code("python", "x", keyed)).await, "idempotency_key", "256");
    }
    let run = world.start("me", "hang").await.run;
    let signal = Some("SIGNOPE".to_owned());
    let next = ContinueRun { run, signal, ..ContinueRun::default() };
    is_invalid(world.engine.continue_run(&user("me"), next).await, "signal", "1 to 64");
}

#[tokio::test(start_paused = true)]
async fn roles() {
    let world = world().await;
    let reader = Caller { role: Role::ReadOnly, ..user("me") };
    let refused = world.engine.run_command(&reader, shell("echo", options())).await;
    has_code(refused, "denied", "role");
    let refused = world.engine.create_workspace(&reader, "w").await;
    has_code(refused, "denied", "role");
    let run = world.run("echo").await;
    assert!(world.engine.run(&reader, &run.run).await.is_ok());
    has_code(world.engine.cancel(&reader, &run.run).await, "denied", "role");
}
