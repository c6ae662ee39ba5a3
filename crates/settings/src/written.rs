//! The file as written: every key optional, every value with its place in the file.
//!
//! A program that writes a file makes the same values, without places: see [`At::from`].

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

/// A value and its place in the file.
#[derive(Clone, Debug)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// The byte range of the file that holds it.
    pub span: Range<usize>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = toml::Spanned::<T>::deserialize(deserializer)?;
        Ok(Self { span: spanned.span(), value: spanned.into_inner() })
    }
}

impl<T> Deref for At<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// A key that may be absent. (An `Option` would put `null` into the schema, which TOML lacks.)
#[derive(Clone, Debug)]
pub struct Field<T>(Option<At<T>>);

impl<T> Default for Field<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        At::deserialize(deserializer).map(|at| Self(Some(at)))
    }
}

impl<T> Deref for Field<T> {
    type Target = Option<At<T>>;
    fn deref(&self) -> &Option<At<T>> {
        &self.0
    }
}

/// A value that must be written as a table. (The derived code would accept an array for a struct, field by field.)
#[derive(Clone, Debug)]
pub struct Table<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TableVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
            type Value = Table<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Table<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Table)
            }
        }
        deserializer.deserialize_any(TableVisitor(PhantomData))
    }
}

impl<T> Deref for Table<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// One `[section]` and the place of its header.
pub type Section<T> = At<Table<T>>;

/// A value that is not from a file has no place.
impl<T> From<T> for At<T> {
    fn from(value: T) -> Self {
        Self { value, span: 0..0 }
    }
}

impl<T> From<T> for Section<T> {
    fn from(value: T) -> Self {
        Table(value).into()
    }
}

impl<T> From<T> for Field<T> {
    fn from(value: T) -> Self {
        Self(Some(value.into()))
    }
}

impl<T> From<T> for Field<Table<T>> {
    fn from(value: T) -> Self {
        Self(Some(value.into()))
    }
}

impl From<&str> for Field<String> {
    fn from(value: &str) -> Self {
        value.to_owned().into()
    }
}

impl<T> FromIterator<T> for Field<Vec<At<T>>> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        values.into_iter().map(At::from).collect::<Vec<_>>().into()
    }
}

impl<T: Serialize> Serialize for At<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

/// An absent key is nothing, which TOML leaves out.
impl<T: Serialize> Serialize for Field<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<T: Serialize> Serialize for Table<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

macro_rules! schema_of_inner {
    ($wrapper:ident) => {
        impl<T: JsonSchema> JsonSchema for $wrapper<T> {
            fn inline_schema() -> bool {
                T::inline_schema()
            }
            fn schema_name() -> Cow<'static, str> {
                T::schema_name()
            }
            fn schema_id() -> Cow<'static, str> {
                T::schema_id()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                T::json_schema(generator)
            }
        }
    };
}
schema_of_inner!(At);
schema_of_inner!(Field);
schema_of_inner!(Table);
