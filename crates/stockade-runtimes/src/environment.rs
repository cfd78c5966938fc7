//! The environment every program starts with. Runtimes and callers override it.

use std::collections::BTreeMap;

use crate::inside;

/// Environment of every program in a sandbox: nothing of the machine's own.
///
/// Python with the package set comes first in `PATH`, so that `python3` in a
/// shell command is the one that finds pandas; on a machine without the set the
/// entry is simply not there.
pub fn base_env() -> BTreeMap<String, String> {
    let path = [
        inside::PYTHON_BIN,
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
        inside::JS_BIN,
    ];
    let mut env: BTreeMap<String, String> =
        FIXED.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    env.insert("PATH".to_owned(), path.join(":"));
    env
}

/// Thread pools get one thread: a sandbox has one core by default, and each
/// OpenBLAS thread takes its own buffers out of the memory limit.
const FIXED: &[(&str, &str)] = &[
    ("BUN_CONFIG_NO_CLEAR_TERMINAL_ON_RELOAD", "1"),
    ("BUN_RUNTIME_TRANSPILER_CACHE_PATH", "0"),
    ("DO_NOT_TRACK", "1"),
    ("HOME", "/tmp/home"),
    ("LANG", "C.UTF-8"),
    ("LOGNAME", "sandbox"),
    ("MKL_NUM_THREADS", "1"),
    ("MPLBACKEND", "Agg"),
    ("NODE_PATH", inside::NODE_MODULES),
    ("NUMEXPR_NUM_THREADS", "1"),
    ("OMP_NUM_THREADS", "1"),
    ("OPENBLAS_NUM_THREADS", "1"),
    ("PIP_CACHE_DIR", "/tmp/home/.cache/pip"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONUNBUFFERED", "1"),
    ("TERM", "dumb"),
    ("TMPDIR", "/tmp"),
    ("TZ", "UTC"),
    ("USER", "sandbox"),
    ("XDG_CACHE_HOME", "/tmp/home/.cache"),
    ("XDG_CONFIG_HOME", "/tmp/home/.config"),
    ("npm_config_cache", "/tmp/home/.cache/npm"),
    ("npm_config_update_notifier", "false"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_machine_gets_in() {
        let env = base_env();
        assert_eq!(env["HOME"], "/tmp/home");
        assert!(env["PATH"].starts_with("/opt/stockade/python/bin:"), "{}", env["PATH"]);
        assert!(
            env.values().all(|value| !value.starts_with("/root") && !value.starts_with("/home"))
        );
    }
}
