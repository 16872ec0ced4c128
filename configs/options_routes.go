package configs

// The rows of routes and of the match in each of its entries.

// maxMatches is how many texts one part of a match may have, maxPattern how long each may be.
const (
	maxMatches = 64
	maxPattern = 256
)

var routeOptions = []Option{
	{
		Section: sectionRoutes, Key: "name", Kind: KindString, Default: "", MaxLen: maxName, Scope: ScopeRoute, check: checkRouteName,
		Doc: "With a name the rule makes one route per pool of all requests that match, and its limits hold for them together. Without one its settings go to each matching route of the ordinary key (`admission.route_key`) by itself. Empty: none",
	},
	{
		Section: sectionRoutes, Key: "match", Kind: KindGroup, Scope: ScopeRoute,
		Doc: "Which requests the rule is for: those that fit every part given here. The first rule of the list that matches holds; an entry needs a match or a name",
	},
	{
		Section: sectionRoutes, Key: "split_by", Kind: KindStrings, MaxLen: maxName, MaxItems: len(routeParts), Enum: routeParts, Scope: ScopeRoute,
		Doc: "Parts that keep the requests of a rule with a name apart: one route for each value of them",
	},
	{
		Section: sectionRoutes, Key: "weight", Kind: KindInt, Default: 1, Min: 1, Max: 1000, Scope: ScopeRoute,
		Doc: "Share of the pool's free backends while several routes wait for one: a route of weight 3 gets three for each one of a route of weight 1",
	},
	{
		Section: sectionRoutes, Key: "on_full", Kind: KindEnum, Default: string(OnFullRejectNew), Scope: ScopeRoute,
		Enum: []string{string(OnFullRejectNew), string(OnFullDropOldest), string(OnFullDropRandom)},
		Doc:  "Who is refused when the route's queue is full: the newcomer, its oldest waiter, or a random one. A full queue of the whole process always refuses the newcomer",
	},
}

var matchOptions = []Option{
	{
		Section: sectionMatch, Key: "database", Kind: KindStrings, OneText: true, MaxLen: maxPattern, MaxItems: maxMatches, Scope: ScopeRoute, check: checkNotEmpty,
		Doc: "Databases that clients ask for; `*` stands for any bytes",
	},
	{
		Section: sectionMatch, Key: "user", Kind: KindStrings, OneText: true, MaxLen: maxPattern, MaxItems: maxMatches, Scope: ScopeRoute, check: checkNotEmpty,
		Doc: "Users that clients log in as; `*` stands for any bytes",
	},
	{
		Section: sectionMatch, Key: "application_name", Kind: KindStrings, OneText: true, MaxLen: maxPattern, MaxItems: maxMatches, Scope: ScopeRoute,
		Doc: "Application names, after `admission.application_name_pattern`; `*` stands for any bytes, `\"\"` for clients without one",
	},
	{
		Section: sectionMatch, Key: "client_addr", Kind: KindStrings, OneText: true, MaxLen: maxPattern, MaxItems: maxMatches, Scope: ScopeRoute, check: checkClientAddr,
		Doc: "Client addresses: an IPv4 or IPv6 address, a block such as `10.0.0.0/8`, or `unix` for Unix sockets",
	},
	{
		Section: sectionMatch, Key: "query_class", Kind: KindStrings, OneText: true, MaxLen: maxName, MaxItems: len(queryClasses), Enum: queryClasses, Scope: ScopeRoute,
		Doc: "Kinds of request, told by the first words of its statement. `session`: every request in session mode; `transaction`: transaction control with no other statement behind it; `default`: a login, and what is none of the others",
	},
}
