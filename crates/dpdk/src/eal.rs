//! DPDK, started.

use crate::abi::Table;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::sentence::call;
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::ffi::{CStr, CString, c_char};
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How DPDK is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Devices that will be probed. Those of PCI are taken at the start, by address, with arguments after a comma; DPDK touches no
    /// other one.
    pub devices: Vec<String>,
    /// Memory of DPDK's own, for the rings of devices, in bytes. Buffers are not part of it.
    pub memory: u64,
    /// Whether it is of huge pages. Without them, devices need an IOMMU.
    pub huge_pages: bool,
}

/// Addresses that devices use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Iova {
    /// Those of this process: an IOMMU translates them, or the devices are software.
    Virtual,
    /// Those of the machine.
    Physical,
}

/// DPDK, started, for the rest of the process.
#[derive(Clone)]
pub struct Dpdk(Arc<Inner>);

struct Inner {
    table: &'static Table,
    version: String,
    iova: Iova,
    /// Tells addresses of the machine; opened early, as it takes rights that the program gives up.
    pagemap: Option<File>,
    control: Mutex<Control>,
}

/// State that all devices share. Each call of a control function of DPDK holds it.
#[derive(Default)]
pub(crate) struct Control {
    /// Names of the devices in use.
    pub devices: Vec<String>,
    /// Memory that devices may reach.
    pub memory: Memory,
}

impl Dpdk {
    pub(crate) fn start(table: &'static Table, options: &Options) -> Result<Dpdk> {
        static STARTED: AtomicBool = AtomicBool::new(false);
        if STARTED.swap(true, Ordering::AcqRel) {
            return Err(Error::Started);
        }
        let affinity =
            sched_getaffinity(None).map_err(|error| Error::Invalid(format!("the thread's processors: {error}")))?;
        let processor = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| affinity.is_set(cpu)).unwrap_or(0);
        let arguments = arguments(options, processor)?;
        // DPDK moves the pointers of its arguments, and may keep them.
        let pointers: Vec<*mut c_char> =
            arguments.into_iter().map(CString::into_raw).chain([std::ptr::null_mut()]).collect();
        let pointers = pointers.leak();
        let count = pointers.len() as i32 - 1;
        // SAFETY: these are `count` strings and a null pointer, which live for ever, and this is the process's first call.
        let started = call(|error| unsafe { (table.start)(count, pointers.as_mut_ptr(), error) });
        // DPDK has bound the thread to one processor.
        let _ = sched_setaffinity(None, &affinity);
        started?;
        // SAFETY: these have no conditions once DPDK is started; the version is a constant string.
        let (version, is_virtual) =
            unsafe { (CStr::from_ptr((table.version)()).to_string_lossy().into_owned(), (table.is_virtual)()) };
        let iova = if is_virtual { Iova::Virtual } else { Iova::Physical };
        let pagemap = match iova {
            Iova::Virtual => None,
            Iova::Physical => Some(File::open("/proc/self/pagemap").map_err(|error| {
                Error::Invalid(format!(
                    "without an IOMMU, DPDK needs CAP_SYS_ADMIN to read /proc/self/pagemap: {error}"
                ))
            })?),
        };
        Ok(Dpdk(Arc::new(Inner { table, version, iova, pagemap, control: Mutex::default() })))
    }

    /// Returns DPDK's version, as in "DPDK 22.11.11".
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// Returns which addresses devices use.
    pub fn iova(&self) -> Iova {
        self.0.iova
    }

    pub(crate) fn table(&self) -> &'static Table {
        self.0.table
    }

    pub(crate) fn pagemap(&self) -> Option<&File> {
        self.0.pagemap.as_ref()
    }

    /// Waits for other control functions.
    pub(crate) fn control(&self) -> MutexGuard<'_, Control> {
        self.0.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the arguments of DPDK.
fn arguments(options: &Options, processor: usize) -> Result<Vec<CString>> {
    let mut words = vec!["millrace".to_owned(), "--no-telemetry".into(), format!("--lcores=0@{processor}")];
    words.push(format!("-m{}", (options.memory >> 20).max(16)));
    // Its files are shared with no other process. Without huge pages, DPDK does not accept --in-memory, which says the same.
    words.extend(if options.huge_pages {
        vec!["--in-memory".to_owned()]
    } else {
        vec!["--no-huge".into(), "--no-shconf".into()]
    });
    let pci: Vec<&String> = options.devices.iter().filter(|device| is_pci(device)).collect();
    if pci.is_empty() {
        // Devices in software use this process's addresses.
        words.extend(["--no-pci".to_owned(), "--iova-mode=va".into()]);
    }
    words.extend(pci.iter().map(|device| format!("-a{device}")));
    let word = |word: String| {
        CString::new(word).map_err(|error| Error::Invalid(format!("a device's name has a byte of zero: {error}")))
    };
    words.into_iter().map(word).collect()
}

/// Reports whether a device is named by an address of PCI: `[DOMAIN:]BUS:DEVICE.FUNCTION`, with arguments after a comma.
pub fn is_pci(device: &str) -> bool {
    let name = device.split(',').next().unwrap_or_default();
    let name = name.strip_prefix("pci:").unwrap_or(name);
    name.contains(':') && name.chars().all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(options: &Options) -> Vec<String> {
        arguments(options, 3).unwrap().into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn only_named_devices_of_pci_are_touched() {
        let devices = ["0000:01:00.0,arg=1", "net_tap0,iface=a:b", "02:00.1"].map(str::to_owned).to_vec();
        let options = Options { devices, memory: 64 << 20, huge_pages: true };
        let words = words(&options);
        assert_eq!(words[2..], ["--lcores=0@3", "-m64", "--in-memory", "-a0000:01:00.0,arg=1", "-a02:00.1"]);
    }

    #[test]
    fn without_huge_pages_and_devices_dpdk_looks_for_none() {
        let words = words(&Options { devices: vec!["net_null0".into()], memory: 0, huge_pages: false });
        assert_eq!(words[3..], ["-m16", "--no-huge", "--no-shconf", "--no-pci", "--iova-mode=va"]);
    }
}
