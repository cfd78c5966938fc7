//! What a sandbox costs, side by side with bare execution and with bubblewrap.
//!
//! Not part of the tests: the figures mean something on a quiet machine only.
//! `cargo test --release -p stockade-native --test it -- --ignored --nocapture measure`

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::place::{Place, command, run};

const ROUNDS: usize = 60;
const PROGRAMS: [&[&str]; 2] = [&["/bin/true"], &["/usr/bin/python3", "-c", "pass"]];

#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn row(&mut self, name: &str) {
        self.0.sort_unstable();
        let at = |part: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a place in a short list"
            )]
            let index = (part * (self.0.len() - 1) as f64) as usize;
            self.0[index].as_secs_f64() * 1e3
        };
        println!("{name:<28} {:>8.2} {:>8.2} {:>8.2}", at(0.0), at(0.5), at(0.99));
    }
}

fn outside(argv: &[&str]) -> Duration {
    let begun = Instant::now();
    #[expect(clippy::disallowed_methods, reason = "what is compared with")]
    let status = Command::new(argv[0]).args(&argv[1..]).stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{argv:?}");
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures; needs a quiet machine and bubblewrap"]
async fn measure() {
    println!("{:<28} {:>8} {:>8} {:>8}", "ms", "min", "p50", "p99");
    let place = Place::new();
    for program in PROGRAMS {
        let mut rows: [Times; 7] = Default::default();
        let warm = place.sandbox().await;
        for round in 0..ROUNDS + 3 {
            let begun = Instant::now();
            let sandbox = place.sandbox().await;
            let made = Instant::now();
            let ran = run(&sandbox, command(program)).await;
            assert_eq!(ran.exit.status, stockade_core::backend::ExitStatus::Code(0), "{ran:?}");
            let ended = Instant::now();
            sandbox.destroy().await.unwrap();
            let gone = Instant::now();
            run(&warm, command(program)).await;
            let warm = gone.elapsed();
            let argv: Vec<_> = ["bwrap", "--unshare-all", "--ro-bind", "/", "/"]
                .into_iter()
                .chain(program.iter().copied())
                .collect();
            let (bare, bwrap) = (outside(program), outside(&argv));
            if round >= 3 {
                let cold =
                    [gone - begun, ended - begun, made - begun, ended - made, warm, bare, bwrap];
                rows.iter_mut().zip(cold).for_each(|(row, time)| row.0.push(time));
            }
        }
        let names = [
            "cold, to nothing left",
            "cold, to the exit",
            "  create",
            "  first run",
            "warm run",
            "bare",
            "bwrap --unshare-all",
        ];
        println!("{}", program.join(" "));
        rows.iter_mut().zip(names).for_each(|(row, name)| row.row(name));
    }
}
