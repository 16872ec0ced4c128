package routing

// OverflowIdentity is the identity under which Directory.Each shows the overflow route of a pool that t names.
func OverflowIdentity(t Tenant) Identity {
	return Identity{Rule: -1, RuleID: overflowID, Key: Key{Database: t.Database, User: t.User}}
}
