//! Parts of a configuration, and its text.

use super::*;
use settings::written::Table as Written;
use toml::{Table, Value};

/// A part of a configuration: sections of its file.
pub trait Part {
    /// Adds it to the file.
    fn add_to(self, file: &mut RawFile);
}

macro_rules! sections {
    ($($section:ty => $list:ident,)*) => {
        $(impl Part for $section {
            fn add_to(self, file: &mut RawFile) {
                file.$list.push(self.into());
            }
        })*
    };
}

sections! {
    RawPort => ports,
    RawPatch => patches,
    RawBridge => bridges,
    RawMapping => mappings,
    RawExchange => exchanges,
    RawMirror => mirrors,
    RawWorker => workers,
}

macro_rules! sole_sections {
    ($($section:ty => $field:ident,)*) => {
        $(impl Part for $section {
            fn add_to(self, file: &mut RawFile) {
                file.$field = self.into();
            }
        })*
    };
}

sole_sections! {
    RawAggregation => aggregation,
    RawControl => control,
    RawMetrics => metrics,
    RawOpenflow => openflow,
    RawConfinement => confinement,
    RawDpdk => dpdk,
}

impl Part for Acceleration {
    fn add_to(self, file: &mut RawFile) {
        file.acceleration = self.into();
    }
}

impl Part for RawFile {
    fn add_to(self, file: &mut RawFile) {
        file.ports.extend(self.ports);
        file.patches.extend(self.patches);
        file.bridges.extend(self.bridges);
        file.mappings.extend(self.mappings);
        file.exchanges.extend(self.exchanges);
        file.mirrors.extend(self.mirrors);
        file.workers.extend(self.workers);
        fn take<T>(into: &mut Field<Written<T>>, from: Field<Written<T>>) {
            if from.is_some() {
                *into = from;
            }
        }
        if self.acceleration.is_some() {
            file.acceleration = self.acceleration;
        }
        take(&mut file.aggregation, self.aggregation);
        take(&mut file.control, self.control);
        take(&mut file.metrics, self.metrics);
        take(&mut file.openflow, self.openflow);
        take(&mut file.confinement, self.confinement);
        take(&mut file.dpdk, self.dpdk);
    }
}

/// The same part may be in many configurations.
impl<P: Part + Clone> Part for &P {
    fn add_to(self, file: &mut RawFile) {
        self.clone().add_to(file);
    }
}

impl<P: Part> Part for Option<P> {
    fn add_to(self, file: &mut RawFile) {
        self.into_iter().for_each(|part| part.add_to(file));
    }
}

impl<P: Part> Part for Vec<P> {
    fn add_to(self, file: &mut RawFile) {
        self.into_iter().for_each(|part| part.add_to(file));
    }
}

impl<P: Part, const N: usize> Part for [P; N] {
    fn add_to(self, file: &mut RawFile) {
        self.into_iter().for_each(|part| part.add_to(file));
    }
}

macro_rules! sums {
    ($($part:ident)+) => {
        #[allow(non_snake_case)] // A part is called as its type is.
        impl<$($part: Part),+> Part for ($($part,)+) {
            fn add_to(self, file: &mut RawFile) {
                let ($($part,)+) = self;
                $($part.add_to(file);)+
            }
        }
    };
}

sums!(A B);
sums!(A B C);
sums!(A B C D);
sums!(A B C D E);
sums!(A B C D E F);
sums!(A B C D E F G);
sums!(A B C D E F G H);

/// Returns the file that consists of these parts.
pub fn file(parts: impl Part) -> RawFile {
    let mut file = RawFile::default();
    parts.add_to(&mut file);
    file
}

/// The source of a file: its parts, or its text where that is the point.
pub trait Configuration {
    /// Returns the text of the file.
    fn text(self) -> String;
}

impl<P: Part> Configuration for P {
    fn text(self) -> String {
        let mut document = Table::try_from(file(self)).expect("keys are strings, and values are TOML's");
        let ports = document.get_mut("port").and_then(Value::as_array_mut);
        ports.into_iter().flatten().filter_map(Value::as_table_mut).for_each(join_keys);
        toml::to_string(&document).expect("a table is a document")
    }
}

impl Configuration for &str {
    fn text(self) -> String {
        self.to_owned()
    }
}

impl Configuration for &String {
    fn text(self) -> String {
        self.clone()
    }
}

/// Puts the keys of a port's driver among the others, where the switch reads them.
fn join_keys(port: &mut Table) {
    if let Some(Value::Table(drivers)) = port.remove("settings") {
        drivers.into_iter().filter_map(|(_, keys)| keys.try_into::<Table>().ok()).for_each(|keys| port.extend(keys));
    }
}
