//! Extraction of the kernel proper from a bzImage.
//!
//! Under emulation the kernel's own decompressor takes a fifth of the boot time; the host does it once, in a moment.
//! The header is that of Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header".

use lab::{Error, Result};

/// `setup_sects`: the size of the real-mode part in sectors, its first sector not counted.
const SETUP_SECTS: usize = 0x1f1;
/// `header`: the magic number of the boot protocol.
const HEADER: usize = 0x202;
/// `payload_offset`, counted from the protected-mode part; `payload_length` follows. Since protocol 2.08.
const PAYLOAD_OFFSET: usize = 0x248;
const SECTOR: usize = 512;

/// Returns the compressed kernel inside a bzImage, and the program that decompresses it.
pub(super) fn payload(image: &[u8]) -> Result<(&'static str, &[u8])> {
    let malformed = |problem: &str| Error::malformed("the kernel image", problem);
    if image.get(HEADER..HEADER + 4) != Some(b"HdrS") {
        return Err(malformed("it has no Linux boot header"));
    }
    let word = |at: usize| image.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
    let bounds = || {
        let start = (usize::from(image[SETUP_SECTS]) + 1) * SECTOR + word(PAYLOAD_OFFSET)?;
        Some((start, start.checked_add(word(PAYLOAD_OFFSET + 4)?)?))
    };
    let payload = bounds().and_then(|(start, end)| image.get(start..end));
    let payload = payload.ok_or_else(|| malformed("its payload lies outside of the file"))?;
    let tool = match payload {
        [0x1f, 0x8b, ..] => return Ok(("gzip", payload)),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => "xz",
        [0x02, 0x21, 0x4c, 0x18, ..] => "lz4",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        _ => return Err(malformed("its payload is not compressed by gzip, xz, lz4 or zstd")),
    };
    // The kernel's build appends the uncompressed size, four bytes, unless the format ends with it anyway (gzip).
    let content = payload.len().checked_sub(4).map(|end| &payload[..end]);
    content.map(|content| (tool, content)).ok_or_else(|| malformed("its payload is cut off"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 3 * SECTOR + 16];
        image[SETUP_SECTS] = 2;
        image[HEADER..HEADER + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&16u32.to_le_bytes());
        image[PAYLOAD_OFFSET + 4..PAYLOAD_OFFSET + 8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend_from_slice(payload);
        image
    }

    #[test]
    fn the_appended_size_is_cut_off() {
        let image = image(b"\x02\x21\x4c\x18data\0\0\0\x01");
        assert_eq!(payload(&image).unwrap(), ("lz4", &b"\x02\x21\x4c\x18data"[..]));
    }

    #[test]
    fn gzip_keeps_its_size() {
        let image = image(b"\x1f\x8bdata");
        assert_eq!(payload(&image).unwrap(), ("gzip", &b"\x1f\x8bdata"[..]));
    }

    #[test]
    fn a_truncated_image_is_refused() {
        let mut image = image(b"\x02\x21\x4c\x18data\0\0\0\x01");
        image.pop();
        assert!(payload(&image).is_err());
        assert!(payload(b"MZ").is_err());
    }
}
