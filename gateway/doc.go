// Package gateway holds what the gateway's packages share: the domain types as
// they stand on the wire of fairlead.client.v1, the error codes of the account
// side, and the few interfaces at which the packages meet. It does nothing.
package gateway
