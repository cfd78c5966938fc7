//! The standard package set: installed for real, from the registries.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use stockade_runtimes::{Options, Prepared, Progress, SystemPackages, prepare};

use crate::inside::{Inside, declares, package_data};

/// Installs the set once for all tests. `None`, said out loud, where the
/// machine does not declare that it can.
fn prepared() -> Option<Prepared> {
    if !declares("packages") {
        println!("skipped: needs STOCKADE_TEST_HOST=packages (reaches PyPI and npm)");
        return None;
    }
    let options = Options { system_packages: SystemPackages::Leave };
    let say = |at: Progress| println!("{} · {} · {:.1?}", at.step, at.detail, at.elapsed);
    let prepared = prepare(&package_data(), options, &say).unwrap();
    assert_eq!(prepared.problems, [], "the package set is not complete");
    Some(prepared)
}

/// A place with the whole set.
pub(crate) fn inside() -> Option<Inside> {
    Some(Inside::with(prepared()?, tempfile::tempdir().unwrap()))
}

#[test]
fn the_set_is_complete_and_a_second_prepare_is_instant() {
    let Some(first) = prepared() else { return };
    for (runtime, names) in [
        ("python", "requests numpy pandas matplotlib scipy pillow openpyxl psycopg ipython"),
        ("typescript", "csv-parser papaparse pg postgres react typescript"),
    ] {
        let found: Vec<_> = first.packages[runtime]
            .iter()
            .map(|package| package.split_once(' ').expect("a name and a version").0)
            .collect();
        assert_eq!(found.join(" "), names);
    }
    let steps = RefCell::new(Vec::new());
    let started = Instant::now();
    let say = |at: Progress| steps.borrow_mut().push(at.detail);
    let second = prepare(&package_data(), Options::default(), &say).unwrap();
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(second, first);
    assert!(steps.borrow().iter().all(|detail| detail == "ready"), "{steps:?}");
    assert_eq!(stockade_runtimes::installed(&package_data()), first);
}

#[test]
fn every_python_package_is_imported() {
    let Some(inside) = inside() else { return };
    let code = "import requests, numpy, pandas, matplotlib, scipy.stats, PIL, openpyxl, psycopg, IPython, sys\n\
        print(pandas.DataFrame({'a': [1, 2]}).a.sum(), numpy.ones(3).sum(), psycopg.pq.__impl__, sys.prefix)";
    inside.run("python", code).expect(0, "3 3.0 binary /opt/stockade/python\n");
}

#[test]
fn open_figures_become_files_only_with_echo() {
    let Some(inside) = inside() else { return };
    let code = "import matplotlib.pyplot as plt\n\
        plt.plot([1, 2]); plt.savefig('own.png')\n\
        plt.figure(); plt.plot([1, 3]); plt.show()\n\
        plt.figure()\n\
        plt.figure(); plt.plot([1, 4])\n\
        print('drawn')\n";
    let run = |env: &[(&str, &str)]| {
        let ended = inside.run_with("python", code, &[], env);
        ended.expect(0, "drawn\n");
        ended.stderr
    };
    run(&[]);
    assert_eq!(inside.files(), ["own.png"]);
    assert_eq!(run(&[("STOCKADE_ECHO", "1")]), "");
    assert_eq!(inside.files(), ["figure-1.png", "figure-2.png", "own.png"]);
    run(&[("STOCKADE_ECHO", "1")]);
    assert_eq!(inside.files().len(), 5, "figures of an earlier run were overwritten");
    let png = std::fs::read(inside.workspace().join("figure-1.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG"));
}

#[test]
fn matplotlib_uses_the_ready_font_list() {
    let Some(inside) = inside() else { return };
    let code = "import matplotlib.font_manager, os\n\
        cache = matplotlib.get_cachedir()\n\
        print([os.readlink(os.path.join(cache, name)).rpartition('/')[0] for name in os.listdir(cache)])";
    inside.run("python", code).expect(0, "['/opt/stockade/python/share/stockade-matplotlib']\n");
}

#[test]
fn scripts_of_the_set_start_inside() {
    let Some(inside) = inside() else { return };
    let argv = ["ipython", "--version"].map(str::to_owned);
    let ended = inside.command(&argv, &std::collections::BTreeMap::new());
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let argv = ["tsc", "--version"].map(str::to_owned);
    let ended = inside.command(&argv, &std::collections::BTreeMap::new());
    assert!(ended.stdout.starts_with("Version "), "{ended:#?}");
}

#[test]
fn a_second_go_run_is_fast() {
    let Some(inside) = inside() else { return };
    if inside.tool("go").is_none() {
        println!("skipped: there is no Go on this machine");
        return;
    }
    let code = |word: &str| {
        format!(
            "package main\nimport (\"fmt\"; \"net/http\")\nfunc main() {{ fmt.Println({word:?}, http.StatusOK) }}"
        )
    };
    let cold = Inside::bare().run("go", &code("bare"));
    let first = inside.run("go", &code("first"));
    let second = inside.run("go", &code("second"));
    println!("without cache {:?}, first {:?}, second {:?}", cold.took, first.took, second.took);
    second.expect(0, "second 200\n");
    assert!(first.took < Duration::from_secs(5), "{:?}", first.took);
    assert!(second.took < Duration::from_secs(3), "{:?}", second.took);
}
