//! Names of the files that a device has for a function that exchanges buffers (docs/exchange.md).

use uuid::Uuid;

/// A file that a function asks its device for, by vhost-user's GET_SHARED_OBJECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedObject {
    /// The [`virtqueue::exchange::Grant`] of the function with this token.
    Grant {
        /// A number that the function chose at random, the same at all its ports.
        token: u64,
        /// Number of buffers.
        wanted: u16,
    },
    /// The memory of the group.
    Memory,
}

/// First bytes of all names.
const PREFIX: [u8; 4] = *b"MRX1";

impl SharedObject {
    pub(crate) fn name(self) -> Uuid {
        let (kind, token, wanted) = match self {
            SharedObject::Grant { token, wanted } => (1u16, token, wanted),
            SharedObject::Memory => (2, 0, 0),
        };
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&PREFIX);
        bytes[4..6].copy_from_slice(&kind.to_le_bytes());
        bytes[6..8].copy_from_slice(&wanted.to_le_bytes());
        bytes[8..].copy_from_slice(&token.to_le_bytes());
        Uuid::from_bytes(bytes)
    }

    pub(crate) fn named(name: &Uuid) -> Option<SharedObject> {
        let (words, token) = name.as_bytes().split_at(8);
        let token = u64::from_le_bytes(*token.first_chunk()?);
        let object = match words[4] {
            1 => SharedObject::Grant { token, wanted: u16::from_le_bytes([words[6], words[7]]) },
            _ => SharedObject::Memory,
        };
        (object.name() == *name).then_some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for object in [SharedObject::Memory, SharedObject::Grant { token: 0x0102_0304_0506_0708, wanted: 1000 }] {
            assert_eq!(SharedObject::named(&object.name()), Some(object));
        }
        assert_eq!(SharedObject::named(&Uuid::from_bytes([7; 16])), None);
        let mut other = *SharedObject::Memory.name().as_bytes();
        other[15] = 1;
        assert_eq!(SharedObject::named(&Uuid::from_bytes(other)), None);
    }
}
