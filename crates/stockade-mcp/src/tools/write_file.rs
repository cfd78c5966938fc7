//! `write_file`: create, overwrite, append, or swap one exact text.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use rmcp::model::{CallToolResult, Tool};
use stockade_core::engine::FileWrite;
use stockade_core::path::RelPath;
use stockade_core::request::{Encoding, WriteMode};

use super::options::{place, with_place};
use super::{Effect, annotations, text_result};
use crate::args::{Args, missing};
use crate::call::Call;
use crate::error::{Failure, Outcome};
use crate::render::text::{one_line, size};
use crate::schema::{self, Schema};

const MODES: [(&str, WriteMode); 4] = [
    ("create", WriteMode::Create),
    ("overwrite", WriteMode::Overwrite),
    ("append", WriteMode::Append),
    ("replace", WriteMode::Replace),
];

pub(super) fn tool() -> Tool {
    let schema = Schema::default()
        .required(
            "path",
            schema::text("Path in the workspace: data/a.csv or /workspace/data/a.csv."),
        )
        .required(
            "content",
            schema::text("The content, or the part to add or to put in place of `old`."),
        )
        .optional(
            "encoding",
            schema::choice(
                &["utf-8", "base64"],
                "How `content` and `old` are written. Default utf-8.",
            ),
        )
        .optional(
            "mode",
            schema::choice(
                &MODES.map(|(name, _)| name),
                "create fails if the file is there; overwrite (default) replaces all of it; append \
                 adds to its end; replace swaps `old` for `content`.",
            ),
        )
        .optional(
            "old",
            schema::text("For replace: the exact text to swap. It must occur exactly once."),
        );
    Tool::new("write_file", DESCRIPTION, with_place(schema).build())
        .with_title("Write a file")
        .with_annotations(annotations("Write a file", Effect::Changes { open: false }))
}

const DESCRIPTION: &str = "Writes a file of a sandbox or of a workspace (give one of them); a \
    workspace that is not there is made, and so are directories on the path. To change a part of a file use mode=replace with the exact \
    `old` text, which must occur once, line ends and spaces included. For binary content use \
    encoding=base64. Programs find the file in /workspace.";

pub(super) async fn call(call: &mut Call<'_>, mut args: Args) -> Outcome<CallToolResult> {
    let place = place(&mut args)?;
    let path = RelPath::from_text(&args.required_text("path")?)?.to_text();
    let encodings = [("utf-8", Encoding::Utf8), ("base64", Encoding::Base64)];
    let encoding = args.choice("encoding", &encodings)?.unwrap_or_default();
    let mode = args.choice("mode", &MODES)?.unwrap_or_default();
    let content = decode("content", args.required_content("content")?, encoding)?;
    let old = match (args.text("old")?, mode) {
        (Some(old), WriteMode::Replace) if !old.is_empty() => Some(decode("old", old, encoding)?),
        (_, WriteMode::Replace) => return Err(missing("old")),
        (Some(old), _) if !old.is_empty() => {
            return Err(Failure::argument(
                "old",
                "belongs to mode=replace; set that, or leave it out",
            ));
        }
        _ => None,
    };
    let write = FileWrite { content, mode, old };
    let bytes = call.engine.write_file(&call.caller, &place, &path, write).await?;
    let link = match call.links(&place).await {
        Ok(links) => links.of(&path),
        Err(failure) => {
            tracing::warn!(request_id = call.request_id, ?failure, "no link for a written file");
            None
        }
    };
    let link = link.map(|link| format!(" · {link}")).unwrap_or_default();
    let done = match mode {
        WriteMode::Create => "created",
        WriteMode::Overwrite => "written",
        WriteMode::Append => "appended to",
        WriteMode::Replace => "changed",
    };
    Ok(text_result(format!("{done}: {} · {}{link}", one_line(&path), size(bytes))))
}

fn decode(field: &str, text: String, encoding: Encoding) -> Outcome<Vec<u8>> {
    match encoding {
        Encoding::Utf8 => Ok(text.into_bytes()),
        Encoding::Base64 => {
            let compact: String = text.split_whitespace().collect();
            STANDARD.decode(&compact).or_else(|_| STANDARD_NO_PAD.decode(&compact)).map_err(
                |error| {
                    Failure::argument(
                        field,
                        format!("is not base64 ({error}); example: \"aGVsbG8=\""),
                    )
                },
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_taken_with_line_ends_and_without_padding() {
        for text in ["aGVsbG8=", "aGVs\nbG8=\n", "aGVsbG8"] {
            assert_eq!(decode("content", text.to_owned(), Encoding::Base64).unwrap(), b"hello");
        }
        assert!(decode("content", "?!".to_owned(), Encoding::Base64).is_err());
        assert_eq!(decode("content", "aGVs".to_owned(), Encoding::Utf8).unwrap(), b"aGVs");
    }
}
