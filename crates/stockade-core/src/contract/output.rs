//! Output and input: what goes in and comes out is exact.

use std::time::Duration;

use bytes::Bytes;

use super::Held;
use super::bench::{Bench, command, holds, length, listen, same, text};
use crate::backend::ExitStatus;
use crate::limits::Limits;
use crate::spec::{Command, Overflow, Stdin};

const PATTERN: &[u8; 10] = b"012345678\n";
const MUCH: u64 = 4 << 20;

pub(super) async fn streams_are_separate(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let said = place.run(command(bench.dialect.print("to-stdout", "to-stderr"))).await?;
    same("stdout", &said.stdout()?, &b"to-stdout\n".to_vec())?;
    same("stderr", &said.stderr()?, &b"to-stderr\n".to_vec())?;
    let usage = said.exit()?.usage;
    same("bytes", &(usage.stdout_bytes, usage.stderr_bytes), &(10, 10))?;
    said.ended(&ExitStatus::Code(0))
}

pub(super) async fn all_byte_values_come_through(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let said = place.run(command(bench.dialect.all_bytes())).await?;
    same("stdout", &said.stdout()?, &(0..=255).collect::<Vec<u8>>())
}

fn check_pattern(offset: u64, piece: &[u8]) -> Held {
    for (at, byte) in piece.iter().enumerate() {
        let position = offset + length(at);
        let expected = PATTERN[usize::try_from(position % 10).unwrap_or(0)];
        if *byte != expected {
            return Err(format!("byte {position} is {byte}, not {expected}"));
        }
    }
    Ok(())
}

pub(super) async fn much_output_keeps_head_tail_and_count(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let kept = 64 << 10;
    let limits = Limits { output_kept_bytes: kept, ..super::bench::limits() };
    let flood = Command { limits, ..command(bench.dialect.flood(MUCH)) };
    let process = place.start(flood).await?;
    // A reader that is late makes the agent drop, not the program wait.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let said = listen(process).await;
    let mut end = 0;
    for (offset, piece) in &said.stdout {
        holds("offsets go up", *offset >= end)?;
        check_pattern(*offset, piece)?;
        end = offset + length(piece.len());
    }
    same("end of the last piece", &end, &MUCH)?;
    same("counted bytes", &said.exit()?.usage.stdout_bytes, &MUCH)?;
    let starts_at = said.stdout.first().map(|(offset, _)| *offset);
    same("offset of the first piece", &starts_at, &Some(0))?;
    let received: u64 = said.stdout.iter().map(|(_, piece)| length(piece.len())).sum();
    holds("at least what may be kept has come", received >= u64::from(kept))?;
    said.ended(&ExitStatus::Code(0))
}

pub(super) async fn lossless_output_is_complete(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let limits = Limits { output_kept_bytes: 64 << 10, ..super::bench::limits() };
    let flood = Command { limits, overflow: Overflow::Wait, ..command(bench.dialect.flood(MUCH)) };
    let process = place.start(flood).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let said = listen(process).await;
    let bytes = said.stdout()?;
    same("bytes", &length(bytes.len()), &MUCH)?;
    check_pattern(0, &bytes)?;
    said.ended(&ExitStatus::Code(0))
}

pub(super) async fn stdin_is_closed_by_default(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let said = place.run(command(bench.dialect.copy_stdin())).await?;
    same("stdout", &said.stdout()?, &Vec::new())?;
    said.ended(&ExitStatus::Code(0))
}

fn piped(command: Command) -> Command {
    Command { stdin: Stdin::Piped, ..command }
}

pub(super) async fn stdin_is_fed_and_closed(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let process = place.start(piped(command(bench.dialect.copy_stdin()))).await?;
    let control = process.control.clone();
    control.write_stdin(Bytes::from_static(b"one\n")).await.map_err(text)?;
    control.write_stdin(Bytes::from_static(b"two \xff\n")).await.map_err(text)?;
    control.close_stdin().await.map_err(text)?;
    let said = listen(process).await;
    same("stdout", &said.stdout()?, &b"one\ntwo \xff\n".to_vec())?;
    said.ended(&ExitStatus::Code(0))
}

pub(super) async fn much_stdin_comes_through(bench: &Bench) -> Held {
    let place = bench.place().await?;
    let cat = Command { overflow: Overflow::Wait, ..piped(command(bench.dialect.copy_stdin())) };
    let process = place.start(cat).await?;
    let control = process.control.clone();
    let input: Vec<u8> = PATTERN.repeat(200_000);
    let feed = async {
        for piece in input.chunks(64 << 10) {
            control.write_stdin(Bytes::copy_from_slice(piece)).await.map_err(text)?;
        }
        control.close_stdin().await.map_err(text)
    };
    let (fed, said) = futures::join!(feed, listen(process));
    fed?;
    let output = said.stdout()?;
    same("bytes", &output.len(), &input.len())?;
    holds("the bytes are the same", output == input)
}
