//! `list_files`: a capped listing with sizes.

use rmcp::model::{CallToolResult, Tool};
use stockade_core::engine::ListFiles;
use stockade_core::request::{Entry, EntryKind, Listing};

use super::options::{place, with_place};
use super::{Effect, annotations, text_result};
use crate::args::Args;
use crate::call::Call;
use crate::error::{Failure, Outcome};
use crate::render::text::{one_line, size};
use crate::schema::{self, Schema};

/// Most bytes of listing in one answer.
const MOST: usize = 32 << 10;

pub(super) fn tool() -> Tool {
    let schema = Schema::default()
        .optional("path", schema::text("Directory to list. Without it, the workspace itself."))
        .optional("glob", schema::text("Pattern over whole paths instead, for example **/*.csv."))
        .optional(
            "depth",
            schema::integer("How deep to list, 1 (default) is the directory itself."),
        );
    Tool::new("list_files", DESCRIPTION, with_place(schema).build())
        .with_title("List files")
        .with_annotations(annotations("List files", Effect::Reads))
}

const DESCRIPTION: &str = "Lists files of a sandbox or of a workspace (give one of them), one per \
    line with its size, sorted by path, at most 1,000. Directories end with /. Links are listed as \
    links and never followed. Paths are relative to /workspace and can be given to read_file and \
    write_file as they are.";

pub(super) async fn call(call: &mut Call<'_>, mut args: Args) -> Outcome<CallToolResult> {
    let place = place(&mut args)?;
    let depth = args.integer("depth")?;
    if depth == Some(0) {
        return Err(Failure::argument("depth", "is 0; 1 lists the directory itself"));
    }
    let request = ListFiles {
        path: args.name("path")?,
        glob: args.name("glob")?,
        depth: depth.map(|depth| u32::try_from(depth).unwrap_or(u32::MAX)),
    };
    let listing = call.engine.list_files(&call.caller, &place, request).await?;
    Ok(text_result(text_of(&listing)))
}

fn text_of(listing: &Listing) -> String {
    let count = listing.entries.len();
    let mut body = String::new();
    let mut shown = 0;
    for entry in &listing.entries {
        let line = line(entry);
        if body.len() + line.len() > MOST {
            break;
        }
        body.push_str(&line);
        shown += 1;
    }
    let what = if count == 1 { "entry" } else { "entries" };
    let mut text = match count {
        0 => "(nothing there)\n".to_owned(),
        count if listing.more => format!("the first {count} {what}\n"),
        count => format!("{count} {what}\n"),
    };
    text.push_str(&body);
    if shown < count || listing.more {
        text.push_str(&format!(
            "[… only {shown} are shown; name a directory with `path`, or a narrower `glob`]\n"
        ));
    }
    text
}

fn line(entry: &Entry) -> String {
    let path = one_line(&entry.path);
    match entry.kind {
        EntryKind::File => format!("{path} · {}\n", size(entry.size)),
        EntryKind::Directory => format!("{path}/\n"),
        EntryKind::Link => format!("{path} · link\n"),
        EntryKind::Other => format!("{path} · neither file nor directory\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: EntryKind) -> Entry {
        Entry { path: path.to_owned(), kind, size: 12, modified: 0 }
    }

    #[test]
    fn entries_are_listed_with_kind_and_size() {
        let mut listing = Listing {
            entries: vec![
                entry("a.csv", EntryKind::File),
                entry("src", EntryKind::Directory),
                entry("out\n", EntryKind::Link),
                entry("pipe", EntryKind::Other),
            ],
            more: false,
        };
        assert_eq!(
            text_of(&listing),
            "4 entries\na.csv · 12 bytes\nsrc/\nout\\n · link\npipe · neither file nor directory\n"
        );
        listing.more = true;
        assert!(text_of(&listing).starts_with("the first 4 entries\n"));
        assert!(text_of(&listing).contains("[… only 4 are shown"));
        assert_eq!(text_of(&Listing::default()), "(nothing there)\n");
    }

    #[test]
    fn long_listings_are_bounded() {
        let long = "d/".repeat(120);
        let entries = (0..1000).map(|n| entry(&format!("{long}{n}"), EntryKind::File)).collect();
        let text = text_of(&Listing { entries, more: false });
        assert!(text.len() < MOST + 200 && text.contains("are shown; name a directory"));
    }
}
