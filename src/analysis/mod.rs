//! What the measurements mean. Pure: no clock, file or socket.
