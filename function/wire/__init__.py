"""The only protobuf: a request becomes a `Call`, an `Outcome` becomes a response."""
