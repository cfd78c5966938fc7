//! Files on their way out, with a key or through a link.
//!
//! The content is a program's, so the headers see to it that no browser runs
//! it: it is saved under its name, or shown as plain text or as an image.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, RANGE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use stockade_core::caller::Caller;
use stockade_core::engine::Download;
use stockade_core::request::FilePlace;
use stockade_core::{Error, Result};
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;

use super::disposition::{saved, shown};
use super::marks::Marks;
use super::range::{Part, wanted};
use super::{Api, files, target};
use crate::problem::Problem;

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;
/// How often a file that changes under our hands is opened.
const OPENS: u32 = 5;

/// On whose behalf a file is opened.
enum Source {
    Key(Caller, FilePlace),
    Link(String),
}

/// What a client wants to have.
struct Wish {
    source: Source,
    path: String,
    method: Method,
    headers: HeaderMap,
    preview: bool,
}

pub(super) async fn own(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let (workspace, path) = target::file(request.uri())?;
    let source = Source::Key(caller, files::place(workspace));
    Wish::new(source, path, &request).grant(&api).await
}

pub(super) async fn linked(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, Problem> {
    // All that is wrong with a link looks the same from outside.
    let Ok((token, path)) = target::link(request.uri()) else { return Err(no_link()) };
    let dir = api.links.check(&token, &path).await?.ok_or_else(no_link)?;
    Wish::new(Source::Link(dir), path, &request).grant(&api).await
}

fn no_link() -> Problem {
    let detail = "this link is not valid: it was changed, has expired or was revoked";
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail).next("ask for a new link")
}

impl Source {
    async fn open(&self, api: &Api, path: &str, offset: u64) -> Result<Download> {
        match self {
            Self::Key(caller, place) => api.engine.download(caller, place, path, offset).await,
            Self::Link(dir) => api.engine.download_linked(dir, path, offset).await,
        }
    }
}

impl Wish {
    fn new(source: Source, path: String, request: &Request) -> Self {
        let (method, headers) = (request.method().clone(), request.headers().clone());
        Self { source, path, method, headers, preview: asks_to_look(request.uri()) }
    }

    /// The size of a file is known when it is open, and where to begin only then:
    /// it is opened once more at that place, until both fit.
    async fn grant(&self, api: &Api) -> Result<Response, Problem> {
        let mut offset = 0;
        for _ in 0..OPENS {
            let file = match self.source.open(api, &self.path, offset).await {
                Err(Error::Invalid { field: "offset", .. }) if offset > 0 => {
                    offset = 0;
                    continue;
                }
                other => other?,
            };
            let marks = Marks::of(&file);
            if marks.is_known(&self.headers) {
                return Ok(self.dressed(&file, &marks, StatusCode::NOT_MODIFIED, Body::empty()));
            }
            let first = match self.part(&file, &marks) {
                Part::Whole => 0,
                Part::Bytes { first, .. } => first,
                Part::None => return Err(no_part(file.size)),
            };
            if first == offset {
                return Ok(self.sent(file, &marks));
            }
            offset = first;
        }
        Err(Error::conflict("the file", "changing all the time; try again").into())
    }

    /// Ranges are for `GET` alone.
    fn part(&self, file: &Download, marks: &Marks) -> Part {
        let range = self.headers.get(RANGE).and_then(|range| range.to_str().ok());
        match range {
            Some(range) if self.method == Method::GET && marks.fits(&self.headers) => {
                wanted(range, file.size)
            }
            _ => Part::Whole,
        }
    }

    fn sent(&self, mut file: Download, marks: &Marks) -> Response {
        let size = file.size;
        let (status, length, range) = match self.part(&file, marks) {
            Part::Bytes { first, last } => {
                let range = HeaderValue::from_str(&format!("bytes {first}-{last}/{size}")).ok();
                (StatusCode::PARTIAL_CONTENT, last - first + 1, range)
            }
            Part::Whole | Part::None => (StatusCode::OK, size, None),
        };
        let reader = std::mem::replace(&mut file.reader, Box::pin(tokio::io::empty()));
        // A file that grows meanwhile is cut at the size that was promised.
        let body = Body::from_stream(ReaderStream::with_capacity(reader.take(length), PIECE));
        let mut response = self.dressed(&file, marks, status, body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        headers.extend(range.map(|range| (CONTENT_RANGE, range)));
        response
    }

    fn dressed(&self, file: &Download, marks: &Marks, status: StatusCode, body: Body) -> Response {
        let name = self.path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let present = if self.preview { shown } else { saved };
        let presentation = present(&file.media_type, name);
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        if status != StatusCode::NOT_MODIFIED {
            headers.insert(CONTENT_TYPE, presentation.content_type);
        }
        headers.insert(CONTENT_DISPOSITION, presentation.disposition);
        for (name, value) in [
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
            (REFERRER_POLICY, "no-referrer"),
            (CACHE_CONTROL, "private"),
            (ACCEPT_RANGES, "bytes"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        marks.write(headers);
        response
    }
}

fn no_part(size: u64) -> Problem {
    let detail = format!("Range: there are no such bytes; the file has {size}");
    let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "no_such_range", detail);
    match HeaderValue::from_str(&format!("bytes */{size}")) {
        Ok(value) => problem.header(CONTENT_RANGE, value),
        Err(_) => problem,
    }
}

fn asks_to_look(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "preview=1"))
}
