//! What callers do with files and workspaces.

use std::sync::Arc;

use super::Engine;
use super::registry::Busy;
use super::sandboxes::blocking;
use super::types::{Download, FileWrite, ListFiles, Reader};
use super::workspaces::Workspace;
use crate::caller::{Action, Caller};
use crate::error::{Error, Result};
use crate::host_dir::{HostDir, Replacing, media_type, quota};
use crate::id::{OwnerId, WorkspaceName};
use crate::path::RelPath;
use crate::request::{FileContent, FilePlace, Listing, WorkspaceView, WriteMode};
use crate::store::WorkspaceRecord;

/// Most that one read gives.
const READ_LIMIT: u64 = 8 << 20;
/// Deepest listing without a glob.
const DEEPEST_LISTING: u32 = 64;

/// What happens when a named workspace is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absent {
    /// It is made.
    Make,
    /// The call fails.
    Fail,
}

/// A workspace in use by a call.
struct Place {
    workspace: Arc<Workspace>,
    _busy: Option<Busy>,
}

impl Engine {
    /// Reads a part of a file (at most 8 MiB).
    pub async fn read_file(
        &self,
        caller: &Caller,
        place: &FilePlace,
        path: &str,
        range: (u64, u64),
    ) -> Result<FileContent> {
        caller.may(Action::Read)?;
        let path = RelPath::from_text(path)?;
        let (offset, limit) = (range.0, range.1.min(READ_LIMIT));
        self.in_place(caller, place, Absent::Fail, move |files| {
            let (bytes, size) = files.read(&path, offset, limit)?;
            let text = path.to_text();
            let media_type = media_type(&text);
            Ok(FileContent { path: text, bytes, offset, size, media_type })
        })
        .await
    }

    /// Writes a file from memory; parents are made. Gives the new size.
    pub async fn write_file(
        &self,
        caller: &Caller,
        place: &FilePlace,
        path: &str,
        content: FileWrite,
    ) -> Result<u64> {
        caller.may(Action::Write)?;
        let path = RelPath::from_text(path)?;
        let most = self.settings.workspace_bytes;
        self.in_place(caller, place, Absent::Make, move |files| write(files, &path, &content, most))
            .await
    }

    /// Writes a file from a stream; atomic, parents are made. Gives its size.
    pub async fn upload(
        &self,
        caller: &Caller,
        place: &FilePlace,
        path: &str,
        content: Reader,
    ) -> Result<u64> {
        caller.may(Action::Write)?;
        let path = RelPath::from_text(path)?;
        let most = self.settings.workspace_bytes;
        let place = self.place(caller, place, Absent::Make).await?;
        let files = place.workspace.files.clone();
        let (upload, room) = blocking(move || {
            let room = most.saturating_sub(files.bytes_held()?);
            Ok((files.upload(&path)?, room))
        })
        .await?;
        upload.receive(content, room).await
    }

    /// Opens a file for download from an offset on.
    pub async fn download(
        &self,
        caller: &Caller,
        place: &FilePlace,
        path: &str,
        offset: u64,
    ) -> Result<Download> {
        caller.may(Action::Read)?;
        let place = self.place(caller, place, Absent::Fail).await?;
        open(place.workspace.files.clone(), path, offset).await
    }

    /// Opens a file of the workspace in this directory, for a download link that
    /// was checked already.
    pub async fn download_linked(&self, dir: &str, path: &str, offset: u64) -> Result<Download> {
        let (workspaces, dir) = (self.workspaces.clone(), dir.to_owned());
        let workspace = blocking(move || workspaces.by_dir(&dir)).await?;
        open(workspace.files.clone(), path, offset).await
    }

    /// The directory name of a place's workspace, for download links.
    pub async fn workspace_dir(&self, caller: &Caller, place: &FilePlace) -> Result<String> {
        caller.may(Action::Read)?;
        let place = self.place(caller, place, Absent::Fail).await?;
        Ok(place.workspace.dir.clone())
    }

    /// Lists a directory down to `depth`, or what a glob matches; capped at 1,000 entries.
    pub async fn list_files(
        &self,
        caller: &Caller,
        place: &FilePlace,
        request: ListFiles,
    ) -> Result<Listing> {
        caller.may(Action::Read)?;
        let ListFiles { path, glob, depth } = request;
        let path = RelPath::dir_from_text(path.as_deref().unwrap_or_default())?;
        let depth = match (depth, &glob) {
            (Some(0), _) => return Err(Error::invalid("depth", "must be at least 1")),
            (Some(depth), _) => depth.min(DEEPEST_LISTING),
            (None, Some(_)) => DEEPEST_LISTING,
            (None, None) => 1,
        };
        self.in_place(caller, place, Absent::Fail, move |files| {
            files.list(&path, glob.as_deref(), depth)
        })
        .await
    }

    /// Removes a file or an empty directory.
    pub async fn remove_file(&self, caller: &Caller, place: &FilePlace, path: &str) -> Result<()> {
        caller.may(Action::Write)?;
        let path = RelPath::from_text(path)?;
        self.in_place(caller, place, Absent::Fail, move |files| files.remove(&path)).await
    }

    /// The caller's named workspaces.
    pub async fn workspaces(&self, caller: &Caller) -> Result<Vec<WorkspaceView>> {
        caller.may(Action::Read)?;
        let (workspaces, owner) = (self.workspaces.clone(), caller.owner.clone());
        let records = blocking(move || workspaces.named(&owner)).await?;
        Ok(records.iter().filter_map(view).collect())
    }

    /// Makes a workspace. Fails with `Conflict` when it is there.
    pub async fn create_workspace(&self, caller: &Caller, name: &str) -> Result<WorkspaceView> {
        caller.may(Action::Write)?;
        let (workspaces, owner) = (self.workspaces.clone(), caller.owner.clone());
        let parsed = WorkspaceName::parse(name)?;
        let record = blocking(move || workspaces.create(&owner, &parsed)).await?;
        view(&record).ok_or_else(|| Error::not_found("workspace", name))
    }

    /// Removes a workspace and everything in it. Fails with `Conflict` while a sandbox uses it.
    pub async fn remove_workspace(&self, caller: &Caller, name: &str) -> Result<()> {
        caller.may(Action::Write)?;
        let (workspaces, owner) = (self.workspaces.clone(), caller.owner.clone());
        let name = WorkspaceName::parse(name)?;
        blocking(move || workspaces.remove(&owner, &name)).await
    }

    /// Does blocking work on the files of a place.
    async fn in_place<T: Send + 'static>(
        &self,
        caller: &Caller,
        place: &FilePlace,
        absent: Absent,
        work: impl FnOnce(&HostDir) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let place = self.place(caller, place, absent).await?;
        let files = place.workspace.files.clone();
        blocking(move || work(&files)).await
    }

    async fn place(&self, caller: &Caller, place: &FilePlace, absent: Absent) -> Result<Place> {
        match (&place.sandbox, &place.workspace) {
            (Some(sandbox), None) => {
                let entry = self.sandboxes.registry.find(caller, sandbox)?;
                entry.claim();
                let busy = self.sandboxes.registry.hold(&entry)?;
                let live = self.sandboxes.live(&entry).await?;
                Ok(Place { workspace: live.workspace, _busy: Some(busy) })
            }
            (None, Some(name)) => {
                let name = WorkspaceName::parse(name)?;
                let workspace = self.named(&caller.owner, name, absent).await?;
                Ok(Place { workspace: Arc::new(workspace), _busy: None })
            }
            (Some(_), Some(_)) => Err(Error::invalid(
                "workspace",
                "is given beside `sandbox`; a file is in one of them, leave the other out",
            )),
            (None, None) => Err(Error::invalid(
                "workspace",
                "is missing; name a workspace, or a sandbox with `sandbox`",
            )),
        }
    }

    async fn named(
        &self,
        owner: &OwnerId,
        name: WorkspaceName,
        absent: Absent,
    ) -> Result<Workspace> {
        let (workspaces, owner) = (self.workspaces.clone(), owner.clone());
        blocking(move || match absent {
            Absent::Make => workspaces.take(&owner, Some(&name)),
            Absent::Fail => workspaces.find(&owner, &name),
        })
        .await
    }
}

fn write(files: &HostDir, path: &RelPath, content: &FileWrite, most: u64) -> Result<u64> {
    let size = u64::try_from(content.content.len()).unwrap_or(u64::MAX);
    if files.bytes_held()?.saturating_add(size) > most {
        return Err(quota());
    }
    match (content.mode, &content.old) {
        (WriteMode::Create, None) => {
            files.write(path, &content.content, Replacing::Forbidden).map(|()| size)
        }
        (WriteMode::Overwrite, None) => {
            files.write(path, &content.content, Replacing::Allowed).map(|()| size)
        }
        (WriteMode::Append, None) => files.append(path, &content.content),
        (WriteMode::Replace, Some(old)) => files.replace(path, old, &content.content),
        (WriteMode::Replace, None) => Err(Error::invalid(
            "old",
            "is missing; with mode `replace`, give the exact text to swap",
        )),
        (_, Some(_)) => Err(Error::invalid(
            "old",
            "belongs to mode `replace`; leave it out or choose that mode",
        )),
    }
}

async fn open(files: HostDir, path: &str, offset: u64) -> Result<Download> {
    let path = RelPath::from_text(path)?;
    let media_type = media_type(&path.to_text());
    let open = blocking(move || files.open_file(&path, offset)).await?;
    if offset > open.size {
        return Err(Error::invalid("offset", format!("is beyond the end at {}", open.size)));
    }
    let file = tokio::fs::File::from_std(open.file);
    let (size, modified) = (open.size, open.modified);
    Ok(Download { reader: Box::pin(file), size, modified, media_type })
}

fn view(record: &WorkspaceRecord) -> Option<WorkspaceView> {
    Some(WorkspaceView {
        name: record.name.as_ref()?.to_string(),
        created_at: record.created_at,
        used_at: record.used_at,
    })
}
