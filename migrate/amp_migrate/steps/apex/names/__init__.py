"""Names of Apex beside `apex.amp`: torch's own, the shim's, or Apex's still."""
