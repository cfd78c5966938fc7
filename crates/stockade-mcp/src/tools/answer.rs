//! The answer about a run: its text, then its images, then links to its files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock};
use stockade_core::outcome::Verdict;
use stockade_core::request::{Change, ChangedFile, FilePlace, RunState, RunView};

use crate::call::{Call, place_of};
use crate::error::Failure;
use crate::render::RunText;
use crate::render::excerpt::Part;
use crate::render::files::{self, LinkedFile};
use crate::render::image;
use crate::render::text::{one_line, size};

/// Largest image file that is shown.
pub(super) const MOST_IMAGE_BYTES: u64 = 1 << 20;
/// Most images in one answer.
const MOST_IMAGES: usize = 4;
/// Largest sum of encoded images in one answer.
const MOST_ENCODED: usize = 3 << 20;

/// What of a run is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Show {
    /// Which part of standard output.
    pub(super) stdout: Part,
    /// Which part of standard error.
    pub(super) stderr: Part,
    /// Whether its files are news.
    pub(super) files: Files,
}

impl Show {
    /// The answer of a run that this call started.
    pub(super) const FIRST: Self =
        Self { stdout: Part::Ends, stderr: Part::Ends, files: Files::News };
}

/// Whether an answer has shown the files of a run already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// Not yet.
    News,
    /// Yes: this call only reads on.
    Known,
}

/// The result of a call that gave this run.
pub(super) async fn run_result(call: &Call<'_>, view: &RunView, show: Show) -> CallToolResult {
    let (files, images) = match show.files {
        Files::News => (linked(call, view).await, images(call, view).await),
        Files::Known => (Vec::new(), Images::default()),
    };
    let Show { stdout, stderr, .. } = show;
    let text = RunText { view, stdout, stderr, files: &files, remarks: &images.remarks }.render();
    let mut content = vec![ContentBlock::text(text)];
    content.extend(images.blocks);
    if call.takes_links {
        content.extend(files::links(&files));
    }
    match view.verdict() {
        // These are about the request or about us; whatever else happens is the program's.
        Some(Verdict::Refused | Verdict::Internal | Verdict::Lost) => {
            CallToolResult::error(content)
        }
        _ => CallToolResult::success(content),
    }
}

async fn linked(call: &Call<'_>, view: &RunView) -> Vec<LinkedFile> {
    let unlinked = |file: &ChangedFile| LinkedFile { file: file.clone(), link: None };
    let Some(place) = place_of(view).filter(|_| !view.files.is_empty()) else {
        return view.files.iter().map(unlinked).collect();
    };
    match call.links(&place).await {
        Ok(links) => view
            .files
            .iter()
            .map(|file| LinkedFile { file: file.clone(), link: links.of(&file.path) })
            .collect(),
        Err(failure) => {
            note(call, &failure, "no links for a run's files");
            view.files.iter().map(unlinked).collect()
        }
    }
}

/// Images that are shown, and remarks about those that are not.
#[derive(Debug, Default)]
struct Images {
    blocks: Vec<ContentBlock>,
    remarks: Vec<String>,
    encoded: usize,
}

async fn images(call: &Call<'_>, view: &RunView) -> Images {
    let mut images = Images::default();
    let Some(place) = place_of(view).filter(|_| view.state == RunState::Ended) else {
        return images;
    };
    let candidates = view.files.iter().filter(|file| {
        file.change != Change::Deleted && file.size > 0 && image::is_candidate(&file.media_type)
    });
    for file in candidates {
        let path = one_line(&file.path);
        match show(call, &place, file, &mut images).await {
            Ok(()) => {}
            Err(why) if images.remarks.len() < MOST_IMAGES => {
                images.remarks.push(format!("image {path} is not shown: {why}"));
            }
            Err(_) => {}
        }
    }
    images
}

async fn show(
    call: &Call<'_>,
    place: &FilePlace,
    file: &ChangedFile,
    images: &mut Images,
) -> Result<(), String> {
    if images.blocks.len() == MOST_IMAGES {
        return Err(format!("{MOST_IMAGES} others are; see it with read_file"));
    }
    if file.size > MOST_IMAGE_BYTES {
        let (is, most) = (size(file.size), size(MOST_IMAGE_BYTES));
        return Err(format!("it has {is}, above {most}; make it smaller, or fetch its link"));
    }
    let range = (0, MOST_IMAGE_BYTES);
    let content = match call.engine.read_file(&call.caller, place, &file.path, range).await {
        Ok(content) => content,
        Err(error) => {
            note(call, &error.into(), "an image of a run cannot be read");
            return Err("it cannot be read any more".to_owned());
        }
    };
    if content.size > content.bytes.len() as u64 {
        return Err("it has grown since; fetch its link".to_owned());
    }
    let media_type = image::inspect(&content.bytes).map_err(|why| format!("it {why}"))?;
    let data = STANDARD.encode(&content.bytes);
    if images.encoded + data.len() > MOST_ENCODED {
        return Err("the others fill the answer; see it with read_file".to_owned());
    }
    images.encoded += data.len();
    images.blocks.push(ContentBlock::image(data, media_type));
    Ok(())
}

/// An answer about a run that happened is given even if its trimmings fail.
fn note(call: &Call<'_>, failure: &Failure, what: &str) {
    tracing::warn!(request_id = call.request_id, ?failure, "{what}");
}
