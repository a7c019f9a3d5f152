//! From a run and its findings to what people read: `report.md`, `report.html`, `cells.csv`, and the
//! table at the end of a run.

mod cells;
mod chart;
mod compare;
mod figures;
mod files;
mod markdown;
mod render;
mod terminal;
pub mod view;

pub use compare::render_compare;
pub use files::{ReportError, Written, write, write_cells};
pub use render::{MARKDOWN_TEMPLATE, RenderError, check_template, render_markdown};
pub use terminal::terminal_table;
