//! Sections whose keys depend on the value of one of them: the keys of a `[[port]]` depend on its `driver`.
//!
//! Before the text is read into types, the keys of each variant move into a table of their own, under the variant's name. So
//! each variant's keys are a type of their own, and their places are still known.

use crate::problem::Problem;
use crate::suggest::closest;
use std::borrow::Cow;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// An array of tables, each with a tag that names its variant.
#[derive(Clone, Debug)]
pub struct Tagged {
    /// Name of the array.
    pub section: &'static str,
    /// Key of the tag.
    pub tag: &'static str,
    /// Key that the variant's table gets.
    pub into: &'static str,
    /// Keys of every variant, the tag included.
    pub common: Vec<String>,
    /// All variants.
    pub variants: Vec<Variant>,
}

/// A variant of a [`Tagged`] section.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Value of the tag.
    pub name: &'static str,
    /// Keys of its own.
    pub keys: Vec<String>,
    /// Keys of other variants, each with a reason why this one lacks it.
    pub lacks: &'static [(&'static str, &'static str)],
}

impl Tagged {
    /// Moves the keys of each variant into its table. Removes and reports keys that the variant lacks.
    pub(crate) fn sort(&self, document: &mut DeTable<'_>, problems: &mut Vec<Problem>) {
        let Some(tables) = document.get_mut(self.section).and_then(|value| match value.get_mut() {
            DeValue::Array(array) => Some(array),
            _ => None,
        }) else {
            return;
        };
        for table in tables.iter_mut() {
            let span = table.span();
            if let DeValue::Table(table) = table.get_mut() {
                self.sort_table(table, &span, problems);
            }
        }
    }

    fn sort_table<'t>(&self, table: &mut DeTable<'t>, span: &Range<usize>, problems: &mut Vec<Problem>) {
        let variant = table.get(self.tag).and_then(|tag| tag.get_ref().as_str().and_then(|name| self.variant(name)));
        let own: Vec<_> =
            table.keys().filter(|key| !self.common.iter().any(|known| known == key.get_ref())).cloned().collect();
        let mut moved = DeTable::new();
        for key in own {
            let Some(value) = table.remove(key.get_ref().as_ref()) else { continue };
            match self.problem(variant, &key, &value.span()) {
                Some(problem) => problems.push(problem),
                None => drop(moved.insert(key, value)),
            }
        }
        if let Some(variant) = variant {
            let key = |name: &'static str| Spanned::new(span.clone(), Cow::Borrowed(name));
            let place = |table: DeTable<'t>| Spanned::new(span.clone(), DeValue::Table(table));
            let mut keys = DeTable::new();
            keys.insert(key(variant.name), place(moved));
            table.insert(key(self.into), place(keys));
        }
    }

    fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }

    /// Returns the problem with `key`, if it is no key of `variant`; of any, if the variant is unknown.
    fn problem(&self, variant: Option<&Variant>, key: &Spanned<Cow<'_, str>>, value: &Range<usize>) -> Option<Problem> {
        let name = key.get_ref().as_ref();
        let have: Vec<_> =
            self.variants.iter().filter(|variant| variant.keys.iter().any(|known| known == name)).collect();
        match variant {
            Some(variant) if have.iter().any(|other| other.name == variant.name) => None,
            None if !have.is_empty() => None,
            Some(variant) if !have.is_empty() => {
                let names: Vec<_> = have.iter().map(|variant| variant.name).collect();
                let mut help = format!("remove it; it is an option of {}", names.join(", "));
                if let Some((_, why)) = variant.lacks.iter().find(|(lacked, _)| *lacked == name) {
                    help = format!("{help}. {why}");
                }
                Some(Problem::error(value, format!("`{name}` means nothing to {} {}", self.tag, variant.name), help))
            }
            _ => {
                let own = self.variants.iter().filter(|other| variant.is_none_or(|variant| variant.name == other.name));
                let known = self.common.iter().chain(own.flat_map(|variant| &variant.keys)).map(String::as_str);
                let help = match closest(name, known.clone()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("known here: {}", known.collect::<Vec<_>>().join(", ")),
                };
                Some(Problem::error(&key.span(), format!("unknown key `{name}`"), help))
            }
        }
    }
}
