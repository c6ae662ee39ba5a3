//! The device, which makes areas and knows its own.

use crate::abi::RETURNS;
use crate::{Area, Error, PAGE};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, fstat, open, stat};
use std::path::{Path, PathBuf};

/// Treatment of the data that an owner has left in pages that it gives for frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftovers {
    /// Nobody sees it: the page becomes zero.
    Zeroed,
    /// If the page came from the area that it now goes to, it returns as it is: the owner keeps no secrets in such pages.
    Returned,
}

/// `/dev/zcopy`.
#[derive(Debug, Clone)]
pub struct Device {
    path: PathBuf,
    number: u64,
}

impl Device {
    /// Finds the device. A program that gives up its rights does this before.
    pub fn find(path: impl Into<PathBuf>) -> Result<Device, Error> {
        let path = path.into();
        // Pages of 16 or 64 KiB hold several frames, and of several owners.
        if rustix::param::page_size() != PAGE {
            return Err(Error::PageSize(rustix::param::page_size()));
        }
        let known = stat(&path).map_err(|error| Error::Device { path: path.clone(), source: error.into() })?;
        if FileType::from_raw_mode(known.st_mode) != FileType::CharacterDevice {
            return Err(Error::NotAnArea);
        }
        Ok(Device { path, number: known.st_rdev })
    }

    /// Returns the device's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the device's number, which all of its files have (`st_rdev`).
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Creates an area.
    pub fn create(&self, pages: u32, leftovers: Leftovers) -> Result<Area, Error> {
        let opened = open(&self.path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let fd = opened.map_err(|error| Error::Device { path: self.path.clone(), source: error.into() })?;
        let flags = if leftovers == Leftovers::Returned { RETURNS } else { 0 };
        Area::sized(fd, pages, flags)
    }

    /// Takes a descriptor that another process has passed, if it is one of this device.
    ///
    /// Others of this kind answer at once, and devices of another kind are not asked.
    pub fn adopt(&self, fd: OwnedFd) -> Result<Area, Error> {
        let known = fstat(&fd).map_err(|error| Error::Refused(error.into()))?;
        let is_ours =
            FileType::from_raw_mode(known.st_mode) == FileType::CharacterDevice && known.st_rdev == self.number;
        if is_ours { Area::known(fd) } else { Err(Error::NotAnArea) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn other_files_are_not_areas() {
        let zero = Device::find("/dev/zero").unwrap();
        assert!(matches!(zero.adopt(File::open("/dev/null").unwrap().into()), Err(Error::NotAnArea)));
        assert!(matches!(Device::find("/"), Err(Error::NotAnArea)));
        assert!(matches!(Device::find("/dev/none"), Err(Error::Device { .. })));
    }

    #[test]
    fn a_device_of_another_kind_refuses() {
        let zero = Device::find("/dev/zero").unwrap();
        assert!(matches!(zero.create(1, Leftovers::Zeroed), Err(Error::Size { .. })));
    }
}
