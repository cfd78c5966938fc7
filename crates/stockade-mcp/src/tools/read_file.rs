//! `read_file`: text by lines, images as images, anything else as base64.

mod lines;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, Tool};
use stockade_core::request::{FileContent, FilePlace};

use self::lines::{Lines, read_lines};
use super::answer::MOST_IMAGE_BYTES;
use super::options::{place, with_place};
use super::{Effect, annotations, text_result};
use crate::args::Args;
use crate::call::Call;
use crate::error::{Failure, Outcome};
use crate::render::image;
use crate::render::text::{one_line, size, thousands};
use crate::schema::{self, Schema};

/// Lines of text in one answer, unless asked for fewer or more.
const LINES: u64 = 2000;
/// Bytes of a binary file in one answer, unless asked for.
const BYTES: u64 = 16 << 10;
/// Most bytes of a binary file in one answer.
const MOST_BYTES: u64 = 1 << 20;
/// What is looked at to tell text from binary.
const PROBE: u64 = 8 << 10;

pub(super) fn tool() -> Tool {
    let schema = Schema::default()
        .required(
            "path",
            schema::text("Path in the workspace: data/a.csv or /workspace/data/a.csv."),
        )
        .optional(
            "offset",
            schema::integer(
                "Text: first line, counted from 1. Base64: first byte, counted from 0.",
            ),
        )
        .optional("limit", schema::integer("Text: number of lines. Base64: number of bytes."))
        .optional(
            "encoding",
            schema::choice(
                &["utf-8", "base64"],
                "How to read it. Without it, as its content suggests.",
            ),
        );
    Tool::new("read_file", description(), with_place(schema).build())
        .with_title("Read a file")
        .with_annotations(annotations("Read a file", Effect::Reads))
}

fn description() -> String {
    format!(
        "Reads a file of a sandbox or of a workspace (give one of them). Text comes by lines: \
         `offset` is the first line (1 is the first of the file), `limit` the number of lines (default \
         {LINES}). PNG, JPEG, GIF and WebP images come as images. Other binary files come as base64; \
         `offset` and `limit` then count bytes. The first line of the answer says what part it is."
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Base64,
}

pub(super) async fn call(call: &mut Call<'_>, mut args: Args) -> Outcome<CallToolResult> {
    let place = place(&mut args)?;
    let path = args.required_text("path")?;
    let (offset, limit) = (args.integer("offset")?, args.integer("limit")?);
    let encoding = args.choice("encoding", &[("utf-8", Form::Text), ("base64", Form::Base64)])?;
    if limit == Some(0) {
        return Err(Failure::argument("limit", "is 0; give 1 or more, or leave it out"));
    }
    let probe = call.engine.read_file(&call.caller, &place, &path, (0, PROBE)).await?;
    let form = match encoding {
        Some(form) => form,
        None if image::is_candidate(&probe.media_type) && offset.is_none() && limit.is_none() => {
            return as_image(call, &place, &path, &probe).await;
        }
        None if is_text(&probe.bytes) => Form::Text,
        None => Form::Base64,
    };
    match form {
        Form::Text => {
            as_text(call, &place, &path, (offset.unwrap_or(1), limit.unwrap_or(LINES))).await
        }
        Form::Base64 => {
            let limit = limit.unwrap_or(BYTES);
            if limit > MOST_BYTES {
                return Err(Failure::argument(
                    "limit",
                    format!(
                        "{limit} is above {} bytes of base64 in one answer",
                        thousands(MOST_BYTES)
                    ),
                ));
            }
            as_base64(call, &place, &path, (offset.unwrap_or(0), limit)).await
        }
    }
}

async fn as_image(
    call: &Call<'_>,
    place: &FilePlace,
    path: &str,
    probe: &FileContent,
) -> Outcome<CallToolResult> {
    if probe.size > MOST_IMAGE_BYTES {
        let link = call.links(place).await?.of(&probe.path);
        let link = link.map(|link| format!(", or fetch {link}")).unwrap_or_default();
        return Ok(text_result(format!(
            "{} · {} · {}\nToo large to show (at most {}): make it smaller{link}, or read it with \
             encoding=base64.",
            one_line(&probe.path),
            probe.media_type,
            size(probe.size),
            size(MOST_IMAGE_BYTES)
        )));
    }
    let content = call.engine.read_file(&call.caller, place, path, (0, MOST_IMAGE_BYTES)).await?;
    match image::inspect(&content.bytes) {
        Ok(media_type) => {
            let text =
                format!("{} · {media_type} · {}", one_line(&content.path), size(content.size));
            let block = ContentBlock::image(STANDARD.encode(&content.bytes), media_type);
            Ok(CallToolResult::success(vec![ContentBlock::text(text), block]))
        }
        Err(why) => Ok(text_result(format!(
            "{} · {}\nNot shown as an image: it {why}. Read it with encoding=base64.",
            one_line(&content.path),
            size(content.size)
        ))),
    }
}

async fn as_text(
    call: &Call<'_>,
    place: &FilePlace,
    path: &str,
    (first, count): (u64, u64),
) -> Outcome<CallToolResult> {
    let first = first.max(1);
    let download = call.engine.download(&call.caller, place, path, 0).await?;
    let file_size = download.size;
    let lines = read_lines(download.reader, first, count)
        .await
        .map_err(|source| stockade_core::Error::backend("workspace", "reading a file", source))?;
    Ok(text_result(text_of(&lines, path, file_size, first)))
}

fn text_of(lines: &Lines, path: &str, file_size: u64, first: u64) -> String {
    let name = one_line(path);
    let size = size(file_size);
    if lines.count == 0 {
        return match lines.passed {
            0 => format!("{name} · empty"),
            passed => format!(
                "{name} · {size}\nIt has {} lines; `offset` {first} is beyond them.",
                thousands(passed)
            ),
        };
    }
    let last = first + lines.count - 1;
    let whole = lines.at_end && first == 1;
    let part = if whole { "all".to_owned() } else { format!("lines {first} to {last} of") };
    let unit = if whole { format!("{} lines", thousands(lines.count)) } else { size.clone() };
    let mut text = match whole {
        true => format!("{name} · {part} {unit} · {size}\n"),
        false => format!("{name} · {part} {unit}\n"),
    };
    text.push_str(&lines.text);
    if lines.cut_line {
        text.push_str(&format!(
            "\n[… line {last} is longer than an answer holds; read it with encoding=base64, or cut it \
             with run_command]"
        ));
    } else if !lines.at_end {
        text.push_str(&format!("[… more; read on with offset={}]", last + 1));
    }
    text
}

async fn as_base64(
    call: &Call<'_>,
    place: &FilePlace,
    path: &str,
    range: (u64, u64),
) -> Outcome<CallToolResult> {
    let content = call.engine.read_file(&call.caller, place, path, range).await?;
    let end = content.offset + content.bytes.len() as u64;
    let mut text = format!(
        "{} · {} · base64 of bytes {} to {end} of {}\n{}",
        one_line(&content.path),
        content.media_type,
        content.offset,
        content.size,
        STANDARD.encode(&content.bytes)
    );
    if end < content.size {
        text.push_str(&format!(
            "\n[… {} bytes more; read on with offset={end}]",
            content.size - end
        ));
    }
    Ok(text_result(text))
}

/// Whether the beginning of a file reads as text; a character may be cut at its end.
fn is_text(bytes: &[u8]) -> bool {
    let valid = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && error.valid_up_to() + 4 > bytes.len(),
    };
    valid && !bytes.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_binary() {
        assert!(is_text(b""));
        assert!(is_text("übel\n".as_bytes()));
        assert!(is_text(&"ü".as_bytes()[..1]));
        assert!(!is_text(b"a\xffb"));
        assert!(!is_text(b"a\0b"));
        assert!(!is_text(b"\x89PNG\r\n\x1a\n"));
    }

    #[test]
    fn the_first_line_says_what_part_it_is() {
        let lines = |text: &str, count, passed, at_end| Lines {
            text: text.to_owned(),
            count,
            passed,
            at_end,
            cut_line: false,
        };
        for (lines, first, expected) in [
            (lines("a\nb\n", 2, 2, true), 1, "f · all 2 lines · 4 bytes\na\nb\n"),
            (lines("b\n", 1, 2, true), 2, "f · lines 2 to 2 of 4 bytes\nb\n"),
            (
                lines("a\n", 1, 1, false),
                1,
                "f · lines 1 to 1 of 4 bytes\na\n[… more; read on with offset=2]",
            ),
            (lines("", 0, 0, true), 1, "f · empty"),
            (lines("", 0, 2, true), 9, "f · 4 bytes\nIt has 2 lines; `offset` 9 is beyond them."),
        ] {
            assert_eq!(text_of(&lines, "f", 4, first), expected);
        }
    }
}
