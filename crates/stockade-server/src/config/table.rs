//! The table of keys: name, kind, default, meaning. Help, checks and
//! `config show` all come from it.

/// What kind of value a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A list of texts; in the environment separated by commas.
    List,
    /// A whole number from the first to the last.
    Whole(u64, u64),
    /// A number from the first to the last, with decimals (given in thousandths).
    Decimal(u64, u64),
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name, with its section: `server.listen`.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its default, as TOML. Empty for those whose default is worked out.
    pub default: &'static str,
    /// What it is for.
    pub about: &'static str,
}

impl Key {
    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        format!("STOCKADE_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

const fn text(name: &'static str, default: &'static str, about: &'static str) -> Key {
    Key { name, kind: Kind::Text, default, about }
}

const fn list(name: &'static str, default: &'static str, about: &'static str) -> Key {
    Key { name, kind: Kind::List, default, about }
}

const fn whole(
    name: &'static str,
    (least, most): (u64, u64),
    default: &'static str,
    about: &'static str,
) -> Key {
    Key { name, kind: Kind::Whole(least, most), default, about }
}

const fn decimal(
    name: &'static str,
    (least, most): (u64, u64),
    default: &'static str,
    about: &'static str,
) -> Key {
    Key { name, kind: Kind::Decimal(least, most), default, about }
}

const DAY_S: u64 = 86_400;

/// Every key but `image.mounts` and `[[runtime]]`, which are tables.
pub const KEYS: &[Key] = &[
    text("server.listen", "\"127.0.0.1:8080\"", "address and port to listen on"),
    text("server.public_base_url", "", "how clients reach the server; http://LISTEN unless set"),
    list("server.allowed_hosts", "[]", "further Host names that are answered"),
    list("server.allowed_origins", "[]", "further web origins that are answered"),
    whole("server.shutdown_grace_s", (0, 3600), "10", "time for running work after a stop"),
    whole("server.max_body_mb", (1, 1024), "64", "largest JSON body"),
    whole("server.max_upload_mb", (1, 1 << 20), "1024", "largest uploaded file"),
    whole("server.max_connections", (1, 65_536), "1024", "connections at once"),
    text("log.format", "\"text\"", "`text` or `json`"),
    text("log.level", "\"info,rmcp=warn\"", "levels by target"),
    decimal("limits.default.timeout_s", (1, DAY_S * 1000), "30", "wall time of a run"),
    decimal("limits.default.cpu_time_s", (1, DAY_S * 1000), "60", "processor time of a run"),
    whole("limits.default.memory_mb", (8, 1 << 20), "512", "memory of a sandbox"),
    decimal("limits.default.cpus", (10, 1_024_000), "1", "cores of a sandbox"),
    whole("limits.default.pids", (8, 1 << 20), "128", "processes and threads of a sandbox"),
    whole("limits.default.output_kept_kb", (1, 1 << 20), "1024", "output kept per stream"),
    whole("limits.default.output_max_mb", (1, 1 << 20), "1024", "output that ends a run"),
    whole("limits.default.file_mb", (1, 1 << 24), "1024", "largest file a run may write"),
    whole("limits.default.tmp_mb", (1, 1 << 20), "256", "size of /tmp"),
    whole("limits.default.open_files", (16, 1 << 20), "1024", "open files of a process"),
    decimal("limits.ceiling.timeout_s", (1, DAY_S * 1000), "600", "most that may be asked for"),
    decimal("limits.ceiling.cpu_time_s", (1, DAY_S * 1000), "1200", "most that may be asked for"),
    whole("limits.ceiling.memory_mb", (8, 1 << 20), "4096", "most that may be asked for"),
    decimal("limits.ceiling.cpus", (10, 1_024_000), "4", "most that may be asked for"),
    whole("limits.ceiling.pids", (8, 1 << 20), "1024", "most that may be asked for"),
    list("policy.networks", "[]", "networks that callers may ask for: `open`"),
    list(
        "policy.required_layers",
        "[\"filesystem\", \"processes\", \"network\", \"syscalls\", \"privileges\"]",
        "layers of the wall without which nothing runs; add memory, pids, cpu for a team's server",
    ),
    list("policy.image_roots", "[]", "root directories that may be named as image"),
    whole("engine.max_concurrent", (1, 4096), "", "runs at once; twice the cores unless set"),
    whole("engine.max_queued", (0, 1 << 20), "200", "runs that may wait for a slot"),
    decimal(
        "engine.answer_within_s",
        (0, 3_600_000),
        "25",
        "a call answers after this at the latest",
    ),
    whole(
        "engine.sandbox_idle_s",
        (1, 30 * DAY_S),
        "900",
        "a sandbox without activity goes after this",
    ),
    whole(
        "engine.sandbox_life_s",
        (1, 365 * DAY_S),
        "14400",
        "a sandbox goes after this, whatever happens",
    ),
    whole("engine.max_sandboxes_per_owner", (1, 4096), "20", "live sandboxes of one owner"),
    whole(
        "engine.workspace_idle_h",
        (0, 24 * 3650),
        "24",
        "an unused workspace goes after this; 0 = never",
    ),
    whole(
        "engine.run_retention_s",
        (1, 30 * DAY_S),
        "3600",
        "how long an ended run can be asked for",
    ),
    whole("engine.workspace_mb", (1, 1 << 24), "1024", "what a workspace may hold"),
    whole("links.ttl_h", (1, 24 * 3650), "24", "how long download links work"),
];

/// The key with this name.
pub(super) fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}
