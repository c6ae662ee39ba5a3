//! A guest's network device and its other side: a vhost-user socket, a stream of frames, or another device.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

/// Place of an emulated device with number 0 on its bus; the next one has the next place.
const FIRST_SLOT: usize = 8;

static NEXT_MAC: AtomicU16 = AtomicU16::new(1);

/// A NIC that QEMU emulates, which reaches the machine's memory as hardware does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Intel's 82540EM.
    E1000,
    /// Intel's 82576; newer than QEMU 7.2.
    Igb,
    /// A modern virtio-net device whose driver must map the memory that the device uses.
    Virtio,
    /// VMware's.
    Vmxnet3,
}

impl Model {
    /// Returns QEMU's name for it, with its properties.
    fn device(self) -> &'static str {
        match self {
            Model::E1000 => "e1000",
            Model::Igb => "igb",
            Model::Virtio => "virtio-net-pci,vectors=0,iommu_platform=on,disable-legacy=on",
            Model::Vmxnet3 => "vmxnet3",
        }
    }
}

/// A network device whose other side is a vhost-user backend, the far end of a link, or another device of the machine.
#[derive(Debug, Clone)]
pub struct Nic {
    socket: PathBuf,
    /// The model that QEMU emulates, if QEMU moves the frames.
    model: Option<Model>,
    /// The cable of QEMU's that it is at, instead of the socket.
    cable: Option<usize>,
    mac: String,
    packed: bool,
    queues: usize,
    queue_size: Option<u16>,
    server: bool,
    reconnect: bool,
    mtu: Option<u16>,
    offloads: bool,
}

impl Nic {
    /// Creates a virtio-net device with one split queue pair and all offloads; QEMU connects to the backend's socket.
    pub fn new(socket: impl AsRef<Path>) -> Self {
        let number = NEXT_MAC.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        Self {
            socket: socket.as_ref().to_owned(),
            model: None,
            cable: None,
            mac: format!("52:54:00:0e:{:02x}:{:02x}", number[0], number[1]),
            packed: false,
            queues: 1,
            queue_size: None,
            server: false,
            reconnect: false,
            mtu: None,
            offloads: true,
        }
    }

    /// Creates a device whose frames QEMU moves itself; it connects to a [`super::Socket`] of this path.
    pub fn emulated(model: Model, socket: impl AsRef<Path>) -> Self {
        Self { model: Some(model), ..Self::new(socket) }
    }

    /// Creates a device at a cable; what one end sends, the other receives.
    pub fn at_cable(model: Model, cable: usize) -> Self {
        Self { cable: Some(cable), ..Self::emulated(model, "") }
    }

    /// Sets its MAC address; the default is unique within this process.
    pub fn mac(mut self, mac: impl Into<String>) -> Self {
        self.mac = mac.into();
        self
    }

    /// Offers packed rings.
    pub fn packed(mut self) -> Self {
        self.packed = true;
        self
    }

    /// Offers this many queue pairs. Linux uses as many as the guest has processors.
    pub fn queues(mut self, pairs: usize) -> Self {
        self.queues = pairs;
        self
    }

    /// Sets the size of every ring, a power of two from 256 to 1024; QEMU's default is 256.
    pub fn queue_size(mut self, size: u16) -> Self {
        self.queue_size = Some(size);
        self
    }

    /// Makes QEMU create the socket and wait for the backend to connect, before booting and whenever it disconnects.
    pub fn server(mut self) -> Self {
        self.server = true;
        self
    }

    /// Makes QEMU, as the client, reconnect every second after the backend has disconnected.
    ///
    /// It then tells the new backend the position of split rings, from the used index in the guest's memory. Packed rings have
    /// none: QEMU 7.2 sends position 0, wrongly, unless the backend has the in-flight tracking of the vhost-user protocol
    /// (VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD).
    pub fn reconnect(mut self) -> Self {
        self.reconnect = true;
        self
    }

    /// Tells the guest its MTU.
    pub fn mtu(mut self, bytes: u16) -> Self {
        self.mtu = Some(bytes);
        self
    }

    /// Turns off checksum and segmentation offload, and with them mergeable buffers.
    pub fn no_offloads(mut self) -> Self {
        self.offloads = false;
        self
    }

    /// Returns the MAC address.
    pub fn mac_address(&self) -> &str {
        &self.mac
    }

    pub(super) fn pairs(&self) -> usize {
        self.queues
    }

    /// Returns QEMU's arguments for the device with this number.
    pub(super) fn arguments(&self, number: usize) -> Vec<String> {
        let socket = escaped(&self.socket);
        if let Some(model) = self.model {
            let netdev = match self.cable {
                Some(cable) => format!("hubport,id=net{number},hubid={cable}"),
                None => format!("stream,id=net{number},server=off,addr.type=unix,addr.path={socket}"),
            };
            let (model, slot) = (model.device(), FIRST_SLOT + number);
            let device = format!("{model},netdev=net{number},mac={},romfile=,addr={slot:#x}", self.mac);
            return ["-netdev", &netdev, "-device", &device].map(str::to_owned).to_vec();
        }
        let mut chardev = format!("socket,id=chr{number},path={socket}");
        if self.server {
            chardev.push_str(",server=on");
        } else if self.reconnect {
            chardev.push_str(",reconnect=1");
        }
        let netdev = format!("vhost-user,id=net{number},chardev=chr{number},queues={}", self.queues);
        // Without MSI-X vectors: QEMU 7.2 crashes with them when it emulates the processor.
        let mut device = format!("virtio-net-pci,netdev=net{number},mac={},vectors=0,romfile=", self.mac);
        if self.packed {
            device.push_str(",packed=on");
        }
        if self.queues > 1 {
            device.push_str(",mq=on");
        }
        if let Some(size) = self.queue_size {
            device.push_str(&format!(",rx_queue_size={size},tx_queue_size={size}"));
        }
        if let Some(mtu) = self.mtu {
            device.push_str(&format!(",host_mtu={mtu}"));
        }
        if !self.offloads {
            for feature in ["csum", "gso", "guest_csum", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo"] {
                device.push_str(&format!(",{feature}=off"));
            }
            device.push_str(",host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,mrg_rxbuf=off");
        }
        ["-chardev", &chardev, "-netdev", &netdev, "-device", &device].map(str::to_owned).to_vec()
    }
}

/// Returns the PCI address of the emulated device with this number.
pub(super) fn pci_address(number: usize) -> String {
    format!("0000:00:{:02x}.0", FIRST_SLOT + number)
}

/// Escapes a path for a QEMU option, where a comma ends the value unless it is doubled.
pub(super) fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_reaches_qemu() {
        let nic =
            Nic::new("/run/a,b.sock").mac("52:54:00:00:00:01").packed().queues(2).queue_size(512).mtu(1400).server();
        let arguments = nic.arguments(3);
        assert_eq!(arguments[1], "socket,id=chr3,path=/run/a,,b.sock,server=on");
        assert_eq!(arguments[3], "vhost-user,id=net3,chardev=chr3,queues=2");
        let device = "virtio-net-pci,netdev=net3,mac=52:54:00:00:00:01,vectors=0,romfile=,packed=on,mq=on,\
                      rx_queue_size=512,tx_queue_size=512,host_mtu=1400";
        assert_eq!(arguments[5], device);
    }

    #[test]
    fn an_emulated_device_is_where_its_number_says() {
        let arguments = Nic::emulated(Model::E1000, "/run/far").mac("52:54:00:00:00:01").arguments(1);
        assert_eq!(arguments[1], "stream,id=net1,server=off,addr.type=unix,addr.path=/run/far");
        assert_eq!(arguments[3], "e1000,netdev=net1,mac=52:54:00:00:00:01,romfile=,addr=0x9");
        assert_eq!(pci_address(1), "0000:00:09.0");
        assert_eq!(Nic::at_cable(Model::Virtio, 3).arguments(2)[1], "hubport,id=net2,hubid=3");
    }

    #[test]
    fn no_two_devices_share_an_address() {
        assert_ne!(Nic::new("/a").mac_address(), Nic::new("/a").mac_address());
    }
}
