//! Charts of results, in SVG.

pub mod curves;
mod lines;
mod scale;
mod svg;

pub use lines::{Line, Lines, svg};
pub use scale::Scale;
pub use svg::{COLOURS, Svg};
