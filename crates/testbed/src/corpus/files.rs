//! The capture files of a folder, and the distinct frames in them.

use super::error::CorpusError;
use capture::{Error, Reader};
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the longest frame that libpcap captures; longer ones are left out.
const LONGEST: usize = 262_144;

/// All that was read of a folder.
#[derive(Default)]
pub struct Corpus {
    /// Its files, by path.
    pub files: Vec<File>,
    /// The distinct frames, in the order in which they come first.
    pub frames: Vec<Frame>,
    /// By bytes: the place in `frames`.
    places: HashMap<Arc<[u8]>, usize>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct File {
    /// Path from the folder on.
    pub path: String,
    /// Number of frames that were read of it.
    pub frames: u64,
    /// Of these, frames that differ from all before, in this file and those before it.
    pub distinct: u64,
    /// Of these, frames of more than 262144 bytes, which are not sent.
    pub left_out: u64,
    /// Why it was not read, or not to its end.
    pub problem: Option<String>,
}

/// A distinct frame.
#[derive(Debug)]
pub struct Frame {
    /// The place in [`Corpus::files`] of the first file that has it.
    pub file: usize,
    /// Its number there, from 1 on.
    pub number: u64,
    /// Its bytes, from the destination address on.
    pub bytes: Arc<[u8]>,
}

impl Corpus {
    /// Reads all files of `folder` and of the folders in it, by path, or a file alone. Calls `reading` before each. Files that are
    /// no captures have their problem; an error means that a folder can't be read, or is of `reading`.
    pub fn read(folder: &Path, mut reading: impl FnMut(&Path) -> lab::Result<()>) -> Result<Corpus, CorpusError> {
        let mut paths = Vec::new();
        if folder.is_file() {
            paths.push(folder.to_owned());
        } else {
            list(folder, &mut paths)?;
            paths.sort();
        }
        let mut corpus = Corpus::default();
        for path in &paths {
            let name = path.strip_prefix(folder).ok().filter(|name| !name.as_os_str().is_empty());
            let name = name.or_else(|| path.file_name().map(Path::new)).unwrap_or(path);
            reading(name)?;
            corpus.add(name, Reader::open(path));
        }
        Ok(corpus)
    }

    fn add(&mut self, name: &Path, reader: Result<Reader, Error>) {
        let mut file = File { path: name.display().to_string(), ..File::default() };
        let outcome = reader.and_then(|mut frames| {
            frames.try_for_each(|captured| captured.map(|captured| self.add_frame(&mut file, &captured.bytes)))
        });
        file.problem = outcome.err().map(|error| error.to_string());
        self.files.push(file);
    }

    fn add_frame(&mut self, file: &mut File, bytes: &[u8]) {
        file.frames += 1;
        if self.places.contains_key(bytes) {
            return;
        }
        file.distinct += 1;
        if bytes.len() > LONGEST {
            file.left_out += 1;
            return;
        }
        let bytes: Arc<[u8]> = bytes.into();
        self.places.insert(bytes.clone(), self.frames.len());
        self.frames.push(Frame { file: self.files.len(), number: file.frames, bytes });
    }

    /// Returns the place in `frames` of the frame with these bytes.
    pub fn find(&self, bytes: &[u8]) -> Option<usize> {
        self.places.get(bytes).copied()
    }

    /// Returns where a frame is from, as text.
    pub fn origin(&self, frame: &Frame) -> String {
        format!("{}, frame {}", self.files[frame.file].path, frame.number)
    }

    /// Returns the length of the longest frame in bytes.
    pub fn longest(&self) -> usize {
        self.frames.iter().map(|frame| frame.bytes.len()).max().unwrap_or(0)
    }
}

/// Lists the regular files below `folder`. Does not follow links to folders, as they may lead back.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), CorpusError> {
    let failed = |source| CorpusError::Read { path: folder.to_owned(), source };
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if entry.file_type().map_err(failed)?.is_dir() {
            list(&path, files)?;
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
