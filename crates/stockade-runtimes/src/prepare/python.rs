//! The Python set: a virtual environment that works under another path.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::Step;
use crate::clients::{Call, find};
use crate::inside;
use crate::set_dir::SetDir;
use crate::standard_set::PYTHON;

/// The first pip whose `--python` installs for another interpreter.
const PIP_WITH_PYTHON: (u32, u32) = (22, 3);

/// A client that can install for `/usr/bin/python3`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Installer {
    /// Any pip, new enough to install for another interpreter.
    Pip(Vec<OsString>),
    /// The interpreter's own pip, too old for that.
    OldPip(Vec<OsString>),
    Uv(PathBuf),
}

pub(crate) fn installer() -> Option<Installer> {
    let own = vec![OsString::from(PYTHON), "-m".into(), "pip".into()];
    if let Some(version) = pip_version(&own) {
        let is_new = version >= PIP_WITH_PYTHON;
        return Some(if is_new { Installer::Pip(own) } else { Installer::OldPip(own) });
    }
    let others = ["pip3", "pip"].into_iter().filter_map(find).map(|pip| vec![pip.into()]);
    others
        .into_iter()
        .find(|pip| pip_version(pip).is_some_and(|version| version >= PIP_WITH_PYTHON))
        .map(Installer::Pip)
        .or_else(|| find("uv").map(Installer::Uv))
}

fn pip_version(pip: &[OsString]) -> Option<(u32, u32)> {
    let (program, args) = pip.split_first()?;
    parse_pip_version(&Call::new(program).args(args).args(["--version"]).run().ok()?)
}

/// `pip 23.0.1 from …` -> (23, 0)
fn parse_pip_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("pip ")?.split([' ', '.']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

pub(crate) fn install(wanted: &[String], target: &Path, step: &Step<'_>) -> anyhow::Result<()> {
    let Some(installer) = installer() else {
        bail!("there is no pip; install it with: apt-get install python3-pip");
    };
    let set = SetDir::begin(target)?;
    step.say("making the environment");
    Call::new(PYTHON).args(["-m", "venv", "--without-pip"]).args([set.path()]).run()?;
    let site = site_packages(set.path())?;
    fetch(&installer, wanted, set.path(), &site, step)?;
    step.say("making the font list");
    make_font_list(set.path())?;
    move_scripts(&set.path().join("bin"))?;
    let packages = versions(wanted, &site)?;
    step.say("writing to the disk");
    set.finish(packages)?;
    step.say("ready");
    Ok(())
}

fn fetch(
    installer: &Installer,
    wanted: &[String],
    set: &Path,
    site: &Path,
    step: &Step<'_>,
) -> anyhow::Result<()> {
    let python = set.join("bin/python3");
    let pip = |pip: &[OsString]| Call::new(&pip[0]).args(&pip[1..]).env("PYTHONWARNINGS", "ignore");
    let call = match installer {
        Installer::Pip(command) => {
            pip(command).args(["--python"]).args([&python]).args(["install"])
        }
        Installer::OldPip(command) => pip(command).args(["install", "--target"]).args([site]),
        Installer::Uv(uv) => Call::new(uv)
            .args(["pip", "install", "--compile-bytecode", "--link-mode", "copy", "--python"])
            .args([&python]),
    };
    let quiet: &[&str] = match installer {
        Installer::Uv(_) => &["--only-binary", ":all:"],
        Installer::Pip(_) | Installer::OldPip(_) => &[
            "--only-binary=:all:",
            "--no-input",
            "--disable-pip-version-check",
            "--root-user-action=ignore",
        ],
    };
    let on_line = |line: &str| {
        if let Some(name) = line.strip_prefix("Collecting ") {
            step.say(format!("fetching {name}"));
        } else if line.starts_with("Installing") {
            step.say("unpacking");
        }
    };
    call.args(quiet).args(wanted).on_line(&on_line).run().map(drop)
}

fn site_packages(set: &Path) -> anyhow::Result<PathBuf> {
    let lib = set.join("lib");
    fs::read_dir(&lib)
        .with_context(|| format!("reading {}", lib.display()))?
        .filter_map(Result::ok)
        .map(|entry| entry.path().join("site-packages"))
        .find(|path| path.is_dir())
        .with_context(|| format!("there is no site-packages in {}", lib.display()))
}

/// Matplotlib takes seconds to look at all fonts; its list is made here once.
/// This runs our own fixed packages, never code of a user.
fn make_font_list(set: &Path) -> anyhow::Result<()> {
    let cache = set.join("share/stockade-matplotlib");
    fs::create_dir_all(&cache)?;
    Call::new(set.join("bin/python3"))
        .args(["-I", "-c", "import matplotlib.font_manager"])
        .env("HOME", &cache)
        .env("MPLCONFIGDIR", &cache)
        .env("MPLBACKEND", "Agg")
        .run()
        .map(drop)
}

/// Scripts begin with the path of their interpreter; make it the one inside.
fn move_scripts(bin: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(bin)? {
        let path = entry?.path();
        if fs::symlink_metadata(&path)?.is_symlink() {
            continue;
        }
        let text = fs::read(&path)?;
        let Some(end) = text.iter().position(|byte| *byte == b'\n') else { continue };
        if text.starts_with(b"#!") && text[..end].ends_with(b"/bin/python3") {
            let mut moved = format!("#!{}/python3", inside::PYTHON_BIN).into_bytes();
            moved.extend_from_slice(&text[end..]);
            fs::write(&path, moved)?;
        }
    }
    Ok(())
}

/// `name version` of each wanted package, from what was really installed.
fn versions(wanted: &[String], site: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = std::collections::BTreeMap::new();
    for entry in fs::read_dir(site)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some((name, version)) =
            name.strip_suffix(".dist-info").and_then(|name| name.split_once('-'))
        {
            found.insert(normal(name), version.to_owned());
        }
    }
    wanted
        .iter()
        .map(|requirement| {
            let name = name_of(requirement);
            let version =
                found.get(&normal(name)).with_context(|| format!("{name} is not there"))?;
            Ok(format!("{name} {version}"))
        })
        .collect()
}

fn name_of(requirement: &str) -> &str {
    let end = requirement.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    &requirement[..end.unwrap_or(requirement.len())]
}

fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['-', '.'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pip_tells_its_version() {
        assert_eq!(parse_pip_version("pip 23.0.1 from /usr/lib (python 3.11)\n"), Some((23, 0)));
        assert_eq!(parse_pip_version("pip 22.0.2 from /usr"), Some((22, 0)));
        assert_eq!(parse_pip_version("No module named pip"), None);
    }

    #[test]
    fn requirements_have_names() {
        assert_eq!(name_of("psycopg[binary]>=3.1,<4"), "psycopg");
        assert_eq!(name_of("pillow>=10"), "pillow");
        assert_eq!(name_of("pandas"), "pandas");
    }

    #[test]
    fn versions_are_those_installed() {
        let site = tempfile::tempdir().unwrap();
        for name in ["numpy-2.4.6.dist-info", "psycopg-3.3.9.dist-info", "other"] {
            fs::create_dir(site.path().join(name)).unwrap();
        }
        let wanted = ["psycopg[binary]>=3".to_owned(), "numpy".to_owned()];
        assert_eq!(versions(&wanted, site.path()).unwrap(), ["psycopg 3.3.9", "numpy 2.4.6"]);
        assert!(versions(&["scipy".to_owned()], site.path()).is_err());
    }

    #[test]
    fn scripts_start_the_interpreter_inside() {
        let bin = tempfile::tempdir().unwrap();
        fs::write(bin.path().join("f2py"), "#!/tmp/x/bin/python3\nimport sys\n").unwrap();
        fs::write(bin.path().join("activate"), "# no script\n").unwrap();
        move_scripts(bin.path()).unwrap();
        let moved = fs::read_to_string(bin.path().join("f2py")).unwrap();
        assert_eq!(moved, "#!/opt/stockade/python/bin/python3\nimport sys\n");
        assert_eq!(fs::read_to_string(bin.path().join("activate")).unwrap(), "# no script\n");
    }
}
