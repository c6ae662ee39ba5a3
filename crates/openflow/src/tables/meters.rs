//! METER_MOD (Section 7.3.4.4): reads meters, checks them, and keeps what controllers ask for.

use super::wanted::Wanted;
use crate::flows::Contains;
use crate::forwarding::{Band, Counters, Excess, Lane, Meter, Tally, TokenBucket};
use crate::time::Millis;
use crate::wire::ofp::meter;
use crate::wire::{Error, Put, Reader, write_duration};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;

/// Maximum number of meters, and of bands in each.
const MAX_METERS: usize = 4096;
const MAX_BANDS: usize = 8;

/// A burst without a size holds a second's packets divided by this.
const BURSTS: u64 = 10;

/// Length of a band in a message.
const BAND: usize = 16;

/// All meters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meters {
    entries: BTreeMap<u32, Arc<Entry>>,
    /// Changes whenever a meter does.
    pub version: u64,
}

#[derive(Debug)]
struct Entry {
    meter: Arc<Meter>,
    flags: u16,
    /// Its bands as received, for descriptions.
    raw: Box<[u8]>,
    created: Millis,
}

/// A METER_MOD.
pub(crate) enum MeterMod<'a> {
    /// Add a meter, or change it.
    Set(SetMeter<'a>),
    /// Remove these.
    Delete(Wanted),
}

/// A meter that is added or changed.
pub(crate) struct SetMeter<'a> {
    pub id: u32,
    /// Whether it is to be added, and not changed.
    is_new: bool,
    flags: u16,
    /// The bands, as received.
    bands: Reader<'a>,
}

impl<'a> MeterMod<'a> {
    /// Reads the body of the message.
    pub fn read(mut body: Reader<'a>) -> Result<MeterMod<'a>, Error> {
        let mut fixed = || Some((body.u16()?, body.u16()?, body.u32()?));
        let (command, flags, id) = fixed().ok_or(Error::BadLen)?;
        let is_valid = (1..=meter::MAX).contains(&id);
        match command {
            0..=2 if !is_valid && (command, id) != (2, meter::ALL) => Err(Error::MeterInvalid),
            0 | 1 => Ok(MeterMod::Set(SetMeter { id, is_new: command == 0, flags, bands: body })),
            2 => Ok(MeterMod::Delete(Wanted::of(id, meter::ALL))),
            _ => Err(Error::MeterCommand),
        }
    }
}

impl Meters {
    /// Adds a meter, or changes it; returns it.
    pub fn set(&mut self, set: SetMeter<'_>, counters: &Arc<Counters>, now: Millis) -> Result<Arc<Meter>, Error> {
        let SetMeter { id, is_new, flags, bands } = set;
        match (is_new, self.contains(id)) {
            (true, true) => return Err(Error::MeterExists),
            (false, false) => return Err(Error::MeterUnknown),
            (true, false) if self.entries.len() >= MAX_METERS => return Err(Error::MetersFull),
            _ => {}
        }
        let both = meter::KBPS | meter::PKTPS;
        if flags & !meter::FLAGS != 0 || flags & both == both {
            return Err(Error::MeterFlags);
        }
        let (raw, tally) = (bands.0.into(), || Tally::new(counters).ok_or(Error::MetersFull));
        let bands = read_bands(flags, bands, tally)?;
        let meter = Arc::new(Meter { counts_packets: flags & meter::PKTPS != 0, bands, tally: tally()? });
        self.entries.insert(id, Arc::new(Entry { meter: meter.clone(), flags, raw, created: now }));
        self.version += 1;
        Ok(meter)
    }

    /// Removes meters; returns their numbers.
    pub fn delete(&mut self, wanted: Wanted) -> BTreeSet<u32> {
        let meant: BTreeSet<u32> = self.entries.keys().copied().filter(|id| wanted.has(*id)).collect();
        self.entries.retain(|id, _| !meant.contains(id));
        self.version += u64::from(!meant.is_empty());
        meant
    }

    /// Returns meters; an error if the only one that is wanted does not exist.
    fn meant(&self, wanted: Wanted) -> Result<impl Iterator<Item = (&u32, &Arc<Entry>)>, Error> {
        match wanted {
            Wanted::One(id) if !self.contains(id) => Err(Error::MeterUnknown),
            _ => Ok(self.entries.iter().filter(move |(id, _)| wanted.has(**id))),
        }
    }

    /// Returns the descriptions of meters.
    pub fn describe(&self, wanted: Wanted) -> Result<VecDeque<Vec<u8>>, Error> {
        let describe = |(id, entry): (&u32, &Arc<Entry>)| {
            let mut out = Vec::new();
            out.u16((8 + entry.raw.len()) as u16);
            out.u16(entry.flags);
            out.u32(*id);
            out.put(&entry.raw);
            out
        };
        Ok(self.meant(wanted)?.map(describe).collect())
    }

    /// Returns the statistics of meters. `flows` has the number of flows that use each.
    pub fn stats(
        &self,
        wanted: Wanted,
        lanes: &[Arc<Lane>],
        flows: &BTreeMap<u32, u32>,
        now: Millis,
    ) -> Result<VecDeque<Vec<u8>>, Error> {
        let stats = |(id, entry): (&u32, &Arc<Entry>)| {
            let mut out = Vec::new();
            out.u32(*id);
            out.u16((40 + 16 * entry.meter.bands.len()) as u16);
            out.zeros(6);
            out.u32(flows.get(id).copied().unwrap_or(0));
            entry.meter.tally.write(&mut out, lanes);
            write_duration(&mut out, now.saturating_sub(entry.created));
            entry.meter.bands.iter().for_each(|band| band.tally.write(&mut out, lanes));
            out
        };
        Ok(self.meant(wanted)?.map(stats).collect())
    }

    /// Builds an `ofp_meter_features`.
    pub fn features() -> Vec<u8> {
        let mut out = Vec::new();
        out.u32(MAX_METERS as u32);
        out.u32(1 << meter::DROP | 1 << meter::DSCP_REMARK);
        out.u32(meter::FLAGS.into());
        out.put(&[MAX_BANDS as u8, 0, 0, 0]);
        out
    }
}

impl Contains for Meters {
    fn contains(&self, id: u32) -> bool {
        self.entries.contains_key(&id)
    }
}

fn read_bands(
    flags: u16,
    mut list: Reader<'_>,
    tally: impl Fn() -> Result<Tally, Error>,
) -> Result<Box<[Band]>, Error> {
    let mut bands = Vec::new();
    while !list.is_empty() {
        let mut band = Reader(list.take(BAND).ok_or(Error::BadLen)?);
        let mut fixed = || Some((band.u16()?, band.u16()?, band.u32()?, band.u32()?, band.u8()?));
        let (kind, len, rate, burst, levels) = fixed().ok_or(Error::BadLen)?;
        let excess = match kind {
            meter::DROP => Excess::Drop,
            meter::DSCP_REMARK => Excess::Remark(levels),
            _ => return Err(Error::MeterBand),
        };
        if usize::from(len) != BAND {
            return Err(Error::BadLen);
        }
        if bands.len() == MAX_BANDS {
            return Err(Error::MeterBands);
        }
        // Rates and bursts are packets or kilobits.
        let [rate_units, burst_units] =
            [rate, burst].map(|number| u64::from(number) * if flags & meter::PKTPS != 0 { 1 } else { 1000 });
        let has_burst = flags & meter::BURST != 0 && burst != 0;
        let per_second = NonZeroU64::new(rate_units).ok_or(Error::MeterRate)?;
        let bucket = TokenBucket::new(per_second, if has_burst { burst_units } else { rate_units / BURSTS });
        bands.push(Band { rate, bucket, excess, tally: tally()? });
    }
    Ok(bands.into())
}
