//! An interface of a pcapng file, which determines how its packets are read.

use crate::error::Error;
use crate::fields::Fields;
use crate::link_type;
use crate::snapshot;
use std::time::Duration;

// Codes of options (draft-ietf-opsawg-pcapng, Interface Description Block).
const END: u16 = 0;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

/// See the module.
pub(crate) struct Interface {
    /// Captured bytes per packet at most.
    pub(crate) snapshot: u32,
    /// Timestamp units per second.
    resolution: u64,
    /// Seconds to add to timestamps.
    offset: i64,
}

impl Interface {
    /// Reads the body of an Interface Description Block at `offset`.
    pub(crate) fn new(mut body: Fields<'_>, offset: u64) -> Result<Interface, Error> {
        let (Some(link), Some(_), Some(snapshot)) = (body.half(), body.half(), body.word()) else {
            return Err(Error::Block(offset));
        };
        link_type::require_ethernet(link)?;
        let (mut resolution, mut zero) = (None, None);
        while !body.is_empty() {
            let mut option = || {
                let (code, length) = (body.half()?, usize::from(body.half()?));
                Some((code, body.bytes(length.next_multiple_of(4))?, length))
            };
            match option().ok_or(Error::Block(offset))? {
                (END, _, 0) => break,
                (IF_TSRESOL, value, 1) if resolution.is_none() => resolution = Some(units(value[0])?),
                (IF_TSOFFSET, value, 8) if zero.is_none() => zero = body.within(value).long(),
                (END | IF_TSRESOL | IF_TSOFFSET, ..) => return Err(Error::Block(offset)),
                _ => {}
            }
        }
        Ok(Interface {
            snapshot: snapshot::most(snapshot),
            resolution: resolution.unwrap_or(1_000_000),
            offset: zero.unwrap_or(0) as i64,
        })
    }

    /// Returns the time since 1970 of a timestamp.
    pub(crate) fn time(&self, timestamp: u64) -> Duration {
        let (seconds, part) = (timestamp / self.resolution, timestamp % self.resolution);
        let nanoseconds = u128::from(part) * 1_000_000_000 / u128::from(self.resolution);
        Duration::new(seconds.saturating_add_signed(self.offset), nanoseconds as u32)
    }
}

/// Returns the units per second of a resolution: a negative power of 2 if the highest bit is set, otherwise of 10.
fn units(resolution: u8) -> Result<u64, Error> {
    let exponent = u32::from(resolution & 0x7f);
    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(exponent).ok_or(Error::Resolution(resolution))
}
