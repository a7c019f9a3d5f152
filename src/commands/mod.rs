//! The commands beside the run, and the run's edges.

mod admission;
mod analyst;
mod check;
mod compare;
mod dispatch;
mod edges;
mod failure;
mod kept;
mod offline;
mod on_server;
mod restore;
mod resume;

pub(crate) use admission::{admit, hold, open_server_on, somebody_to_ask, within_window};
pub(crate) use analyst::Analyst;
pub(crate) use dispatch::{dispatch, listen};
pub(crate) use edges::{
    check_template, close, create_store, finish, new_run, put_back, read_plan, way_on,
};
pub(crate) use failure::{Failure, session_failure};
pub(crate) use kept::open_for_data;
pub(crate) use offline::list;
pub(crate) use resume::resume;
