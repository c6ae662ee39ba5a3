//! Maps the library's message callbacks to changes of the device.

use super::device::{Device, Refused};
use super::repeats::RegionId;
use super::vring::{Addresses, Kick};
use crate::{Event, descriptors};
use std::fs::File;
use std::io;
use std::sync::Arc;
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight, VhostUserLog,
    VhostUserMemoryRegion, VhostUserShMemConfig, VhostUserSharedMsg, VhostUserSingleMemoryRegion,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    Error, GpuBackend, Result, VhostUserBackendReqHandlerMut, VhostUserProtocolFeatures as ProtocolFeatures,
};
use virtqueue::memory::Region;

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::ReqHandlerError(io::Error::other(refused))
    }
}

/// Refuses a message of a protocol feature that was not offered. The library refuses such a message itself unless the
/// frontend claims to have negotiated the feature, which [`Device::set_protocol_features`] refuses.
fn unsupported<T>() -> Result<T> {
    Err(Refused::Unsupported.into())
}

fn region(r: &VhostUserMemoryRegion, file: File) -> std::result::Result<Region, Refused> {
    descriptors::spare(&file)?;
    Ok(Region {
        guest_addr: r.guest_phys_addr,
        user_addr: r.user_addr,
        len: r.memory_size,
        offset: r.mmap_offset,
        file: Arc::new(file.into()),
    })
}

impl Device {
    /// Checks a kick or call.
    fn event(&self, file: File) -> std::result::Result<Event, Refused> {
        descriptors::spare(&file)?;
        Ok(Event::take(file.into(), Some(self.log.clone()))?)
    }
}

impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        Ok(self.reset()?)
    }

    fn reset_device(&mut self) -> Result<()> {
        Ok(self.reset()?)
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        Ok(Device::set_features(self, features)?)
    }

    fn set_mem_table(
        &mut self,
        table: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let regions =
            table.iter().zip(files).map(|(r, file)| region(r, file)).collect::<std::result::Result<_, _>>()?;
        self.set_regions(regions)?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        Ok(self.set_size(index, num)?)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptors: u64,
        device: u64,
        driver: u64,
        _: u64,
    ) -> Result<()> {
        let at = self.index(index)?;
        let addresses = Some(Addresses { descriptors, driver, device });
        if self.rings[at].addresses != addresses {
            self.change(at, |ring| ring.addresses = addresses)?;
        }
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let at = self.index(index)?;
        Ok(self.set_base(at, base)?)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let at = self.index(index)?;
        self.halt(at)?;
        let ring = &mut self.rings[at];
        // The queue stays stopped until the frontend sets a kick again.
        ring.kick = Kick::Unknown;
        ring.refused = None;
        Ok(VhostUserVringState::new(index, ring.base))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let at = self.index(index.into())?;
        let kick = match fd {
            Some(file) => Kick::Event(self.event(file)?),
            None => Kick::Polled,
        };
        Ok(self.set_kick(at, kick)?)
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let at = self.index(index.into())?;
        let call = fd.map(|fd| self.event(fd)).transpose()?;
        Ok(self.set_call(at, call)?)
    }

    fn set_vring_err(&mut self, index: u8, _: Option<File>) -> Result<()> {
        self.index(index.into())?;
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<ProtocolFeatures> {
        Ok(self.offered_protocol_features())
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        Ok(Device::set_protocol_features(self, features)?)
    }

    /// For a network device this counts queue pairs (QEMU and DPDK agree on that).
    fn get_queue_num(&mut self) -> Result<u64> {
        self.counted = true;
        Ok(self.rings.len() as u64 / 2)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        let at = self.index(index)?;
        if self.rings[at].enabled != enable {
            self.change(at, |ring| ring.enabled = enable)?;
        }
        Ok(())
    }

    fn get_config(&mut self, _: u32, _: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        unsupported()
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        unsupported()
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        unsupported()
    }

    fn get_shared_object(&mut self, asked: VhostUserSharedMsg) -> Result<File> {
        Ok(self.shared_object(&asked.uuid)?.into())
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        unsupported()
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        unsupported()
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(Device::memory_slots())
    }

    fn add_mem_region(
        &mut self,
        added: &VhostUserSingleMemoryRegion,
        fd: File,
        _: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        self.add_region(region(added, fd)?)?;
        Ok(None)
    }

    fn remove_mem_region(&mut self, r: &VhostUserSingleMemoryRegion) -> Result<()> {
        let id = RegionId { guest_addr: r.guest_phys_addr, user_addr: r.user_addr, len: r.memory_size };
        Ok(self.remove_region(id)?)
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        unsupported()
    }

    fn check_device_state(&mut self) -> Result<()> {
        unsupported()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        unsupported()
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        unsupported()
    }
}
