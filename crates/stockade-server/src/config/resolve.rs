//! From values to a `Config`: types, ranges, and what must fit together.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use stockade_core::isolation::Layer;
use stockade_core::limits::Limits;
use stockade_core::request::NetworkRequest;
use stockade_core::runtime::Runtime;
use toml::Value;

use super::sources::{Inputs, Sourced, Values};
use super::table::{KEYS, Kind, key};
use super::{Config, EngineNumbers, Log, Policy, Problem, Server, Shown};

const HOUR_S: u64 = 3600;

/// Reads typed values and notes what is wrong with them.
struct Reader<'a> {
    values: &'a Values,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, name: &str, text: impl std::fmt::Display) {
        let origin = self.values.get(name).map_or("default".to_owned(), |v| v.origin.to_string());
        self.problems.push(Problem { origin, text: format!("{name} {text}") });
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name).map(|sourced| &sourced.value)
    }

    fn text(&mut self, name: &str) -> String {
        match self.value(name) {
            Some(Value::String(text)) => text.clone(),
            None => String::new(),
            Some(other) => {
                let found = format!("must be a text in quotes, not {other}");
                self.problem(name, found);
                String::new()
            }
        }
    }

    fn list(&mut self, name: &str) -> Vec<String> {
        let Some(value) = self.value(name) else { return Vec::new() };
        let texts = value.as_array().and_then(|items| {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        texts.unwrap_or_else(|| {
            self.problem(name, "must be a list of texts: [\"one\", \"two\"]");
            Vec::new()
        })
    }

    fn whole(&mut self, name: &str) -> u64 {
        let Some(Kind::Whole(least, most)) = key(name).map(|key| key.kind) else { return 0 };
        match self.value(name) {
            Some(&Value::Integer(number)) => match u64::try_from(number) {
                Ok(number) if (least..=most).contains(&number) => return number,
                _ => self.problem(name, format!("is {number}, outside {least} to {most}")),
            },
            Some(other) => {
                let found = format!("must be a whole number, not {other}");
                self.problem(name, found);
            }
            None => {}
        }
        least
    }

    fn whole32(&mut self, name: &str) -> u32 {
        u32::try_from(self.whole(name)).unwrap_or(u32::MAX)
    }

    /// In thousandths.
    fn decimal(&mut self, name: &str) -> u64 {
        let Some(Kind::Decimal(least, most)) = key(name).map(|key| key.kind) else { return 0 };
        let number = match self.value(name) {
            #[expect(clippy::cast_precision_loss, reason = "the range is checked below")]
            Some(&Value::Integer(number)) => Some(number as f64),
            Some(&Value::Float(number)) => Some(number),
            _ => None,
        };
        let Some(number) = number else {
            self.problem(name, "must be a number");
            return least;
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast of a float saturates, and the range is checked next"
        )]
        let thousandths = (number * 1000.0).round() as u64;
        if number.is_finite() && (least..=most).contains(&thousandths) {
            return thousandths;
        }
        #[expect(clippy::cast_precision_loss, reason = "for people to read")]
        let (least_s, most_s) = (least as f64 / 1000.0, most as f64 / 1000.0);
        self.problem(name, format!("is {number}, outside {least_s} to {most_s}"));
        least
    }

    fn seconds(&mut self, name: &str) -> Duration {
        Duration::from_secs(self.whole(name))
    }

    fn millis(&mut self, name: &str) -> Duration {
        Duration::from_millis(self.decimal(name))
    }
}

pub(super) fn resolve(inputs: &Inputs, values: &Values, problems: &mut Vec<Problem>) -> Config {
    let mut reader = Reader { values, problems };
    let default_limits = default_limits(&mut reader);
    let ceiling = ceiling(&mut reader, &default_limits);
    Config {
        data_dir: inputs.data_dir.clone(),
        server: server(&mut reader),
        log: log(&mut reader),
        default_limits,
        ceiling,
        policy: policy(&mut reader),
        engine: engine(&mut reader, inputs.cores),
        link_ttl: Duration::from_secs(reader.whole("links.ttl_h") * HOUR_S),
        mounts: mounts(&mut reader),
        runtimes: runtimes(&mut reader),
        shown: shown(inputs, values),
    }
}

fn server(reader: &mut Reader<'_>) -> Server {
    let listen = reader.text("server.listen");
    let listen = if listen.is_empty() { "127.0.0.1:0".to_owned() } else { listen };
    let listen = listen.parse().unwrap_or_else(|error| {
        reader.problem("server.listen", format!("must be ADDRESS:PORT, not {listen:?} ({error})"));
        SocketAddr::from(([127, 0, 0, 1], 8080))
    });
    let mut public_base_url =
        reader.text("server.public_base_url").trim_end_matches('/').to_owned();
    if public_base_url.is_empty() {
        public_base_url = format!("http://{listen}");
    } else if !["http://", "https://"].iter().any(|scheme| public_base_url.starts_with(scheme)) {
        reader.problem("server.public_base_url", "must begin with http:// or https://");
    }
    Server {
        listen,
        public_base_url,
        allowed_hosts: reader.list("server.allowed_hosts"),
        allowed_origins: reader.list("server.allowed_origins"),
        shutdown_grace: reader.seconds("server.shutdown_grace_s"),
        max_body_bytes: usize::try_from(reader.whole("server.max_body_mb") << 20)
            .unwrap_or(usize::MAX),
        max_upload_bytes: reader.whole("server.max_upload_mb") << 20,
        max_connections: usize::try_from(reader.whole("server.max_connections")).unwrap_or(1),
    }
}

fn log(reader: &mut Reader<'_>) -> Log {
    let format = reader.text("log.format");
    if format != "text" && format != "json" {
        reader.problem("log.format", format!("must be `text` or `json`, not {format:?}"));
    }
    let level = reader.text("log.level");
    if let Err(error) = level.parse::<tracing_subscriber::filter::Targets>() {
        reader.problem("log.level", format!("must be like `info,rmcp=warn`: {error}"));
    }
    Log { json: format == "json", level }
}

fn default_limits(reader: &mut Reader<'_>) -> Limits {
    let kept = reader.whole32("limits.default.output_kept_kb");
    Limits {
        wall_time: reader.millis("limits.default.timeout_s"),
        cpu_time: reader.millis("limits.default.cpu_time_s"),
        memory_bytes: reader.whole("limits.default.memory_mb") << 20,
        cpu_millis: u32::try_from(reader.decimal("limits.default.cpus")).unwrap_or(u32::MAX),
        pids: reader.whole32("limits.default.pids"),
        output_kept_bytes: kept.saturating_mul(1024),
        output_max_bytes: reader.whole("limits.default.output_max_mb") << 20,
        file_bytes: reader.whole("limits.default.file_mb") << 20,
        tmp_bytes: reader.whole("limits.default.tmp_mb") << 20,
        open_files: reader.whole32("limits.default.open_files"),
    }
}

fn ceiling(reader: &mut Reader<'_>, default: &Limits) -> Limits {
    let ceiling = Limits {
        wall_time: reader.millis("limits.ceiling.timeout_s"),
        cpu_time: reader.millis("limits.ceiling.cpu_time_s"),
        memory_bytes: reader.whole("limits.ceiling.memory_mb") << 20,
        cpu_millis: u32::try_from(reader.decimal("limits.ceiling.cpus")).unwrap_or(u32::MAX),
        pids: reader.whole32("limits.ceiling.pids"),
        // Callers cannot ask for these; the operator's default is the ceiling.
        ..*default
    };
    for (name, above) in [
        ("timeout_s", default.wall_time > ceiling.wall_time),
        ("cpu_time_s", default.cpu_time > ceiling.cpu_time),
        ("memory_mb", default.memory_bytes > ceiling.memory_bytes),
        ("cpus", default.cpu_millis > ceiling.cpu_millis),
        ("pids", default.pids > ceiling.pids),
    ] {
        if above {
            let text = format!("is above limits.ceiling.{name}; raise that one too");
            reader.problem(&format!("limits.default.{name}"), text);
        }
    }
    ceiling
}

fn policy(reader: &mut Reader<'_>) -> Policy {
    let mut networks = Vec::new();
    for name in reader.list("policy.networks") {
        match name.as_str() {
            "none" => {}
            "open" => networks.push(NetworkRequest::Open),
            _ => reader.problem(
                "policy.networks",
                format!("has `{name}`; this version knows `none` and `open`"),
            ),
        }
    }
    let mut required_layers = Vec::new();
    for name in reader.list("policy.required_layers") {
        match Layer::ALL.into_iter().find(|layer| layer.name() == name) {
            Some(layer) => required_layers.push(layer),
            None => {
                let known = Layer::ALL.map(Layer::name).join(", ");
                reader
                    .problem("policy.required_layers", format!("has `{name}`; known are {known}"));
            }
        }
    }
    let image_roots: Vec<PathBuf> =
        reader.list("policy.image_roots").into_iter().map(PathBuf::from).collect();
    if image_roots.iter().any(|root| root.is_relative()) {
        reader.problem("policy.image_roots", "must hold absolute paths");
    }
    Policy { networks, required_layers, image_roots }
}

fn engine(reader: &mut Reader<'_>, cores: u32) -> EngineNumbers {
    let max_concurrent = match reader.value("engine.max_concurrent") {
        Some(_) => reader.whole32("engine.max_concurrent"),
        None => cores.saturating_mul(2).max(1),
    };
    let workspace_idle = reader.whole("engine.workspace_idle_h");
    EngineNumbers {
        max_concurrent,
        max_queued: reader.whole32("engine.max_queued"),
        answer_within: reader.millis("engine.answer_within_s"),
        sandbox_idle: reader.seconds("engine.sandbox_idle_s"),
        sandbox_life: reader.seconds("engine.sandbox_life_s"),
        max_sandboxes_per_owner: reader.whole32("engine.max_sandboxes_per_owner"),
        workspace_idle: (workspace_idle > 0).then(|| Duration::from_secs(workspace_idle * HOUR_S)),
        run_retention: reader.seconds("engine.run_retention_s"),
        workspace_bytes: reader.whole("engine.workspace_mb") << 20,
    }
}

fn mounts(reader: &mut Reader<'_>) -> BTreeMap<PathBuf, PathBuf> {
    let Some(value) = reader.value("image.mounts").cloned() else { return BTreeMap::new() };
    let mut mounts = BTreeMap::new();
    for (host, inside) in value.as_table().into_iter().flatten() {
        let inside = inside.as_str().unwrap_or_default();
        if host.starts_with('/') && inside.starts_with('/') {
            mounts.insert(PathBuf::from(host), PathBuf::from(inside));
        } else {
            reader.problem("image.mounts", "must be \"/dir/on/the/machine\" = \"/dir/inside\"");
        }
    }
    mounts
}

fn runtimes(reader: &mut Reader<'_>) -> Vec<Runtime> {
    let Some(value) = reader.value("runtime").cloned() else { return Vec::new() };
    let Value::Array(entries) = value else {
        reader.problem("runtime", "must be written as [[runtime]]");
        return Vec::new();
    };
    let mut runtimes = Vec::new();
    for (entry, number) in entries.into_iter().zip(1..) {
        match entry.try_into::<Runtime>() {
            Ok(runtime) => runtimes.push(runtime),
            Err(error) => reader.problem("runtime", format!("entry {number}: {}", error.message())),
        }
    }
    runtimes
}

fn shown(inputs: &Inputs, values: &Values) -> Vec<Shown> {
    let data_dir = Shown {
        key: "data_dir".to_owned(),
        value: format!("{:?}", inputs.data_dir.display().to_string()),
        origin: if inputs.environment.contains_key("STOCKADE_DATA_DIR") {
            "$STOCKADE_DATA_DIR or --data-dir".to_owned()
        } else {
            "default or --data-dir".to_owned()
        },
    };
    let unset = |name: &str| Shown {
        key: name.to_owned(),
        value: match name {
            "engine.max_concurrent" => inputs.cores.saturating_mul(2).max(1).to_string(),
            "server.public_base_url" => "\"http://LISTEN\"".to_owned(),
            _ => String::new(),
        },
        origin: "default".to_owned(),
    };
    let set = |name: &str, sourced: &Sourced| Shown {
        key: name.to_owned(),
        value: sourced.value.to_string(),
        origin: sourced.origin.to_string(),
    };
    let row = |name: &str| values.get(name).map_or_else(|| unset(name), |value| set(name, value));
    let tables = ["image.mounts", "runtime"].into_iter().filter(|name| values.contains_key(*name));
    let names = KEYS.iter().map(|key| key.name).chain(tables);
    std::iter::once(data_dir).chain(names.map(row)).collect()
}
