// Package systemtest tests the program as its users run it: the real binary,
// in processes of its own that are stopped and killed, with the real models, a
// real broker on a real port and SciFact's claims. It holds nothing but tests.
//
// What one package does on its own is tested in that package, with faults that
// cannot be aimed from outside.
package systemtest
