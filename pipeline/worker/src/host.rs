//! The supervisor's side: a worker process under supervision.

mod ended;
mod interrupt;
mod limits;

pub use ended::Ended;
pub use interrupt::Interrupt;
pub use limits::Limits;
