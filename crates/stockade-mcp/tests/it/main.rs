//! The MCP server as its clients see it: an engine on the fake backend, the
//! protocol library's own client over a pipe, and the HTTP router in-process.

#[cfg(test)]
mod bench;
#[cfg(test)]
mod http;
#[cfg(test)]
mod stdio;
#[cfg(test)]
mod tools;
