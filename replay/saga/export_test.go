package saga

// For tests of older tables.
const Component = component

// FirstTables are the tables of the first version.
var FirstTables = tables
