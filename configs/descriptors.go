package configs

import "fmt"

const (
	// CancelsPerHost is how many cancel connections to one PostgreSQL host may be open at the same time.
	CancelsPerHost = 64
	// spareDescriptors covers listeners, pollers, timers, log files and the reserve that accepting needs.
	spareDescriptors = 64
)

// DescriptorsNeeded returns how many file descriptors the process needs when everything is used up: a socket for each
// client, logged in or not, each backend and each cancel connection, and 64.
func DescriptorsNeeded(c *Config) int {
	return c.Server.MaxClients + c.Server.MaxUnauthenticated + serverDescriptors(c)
}

// serverDescriptors is the part of the need that is not for clients.
func serverDescriptors(c *Config) int {
	hosts := len(c.Hosts())
	return hosts*(c.Capacity.MaxBackends+CancelsPerHost) + spareDescriptors
}

// FitDescriptors fits the settings to the hard limit of descriptors (RLIMIT_NOFILE). Where the limit suffices it returns c
// itself. Else, when server.max_clients was set, an error with the figures; when it was not, a copy with max_clients (and
// max_unauthenticated, unless that was set) lowered to what fits, and one line for the log.
func FitDescriptors(c *Config, o *Origins, hard uint64) (fitted *Config, note string, err error) {
	need := DescriptorsNeeded(c)
	if uint64(need) <= hard {
		return c, "", nil
	}
	if o.Set("server.max_clients") {
		return nil, "", tooFewDescriptors(c, hard)
	}
	left := int(hard) - serverDescriptors(c) // hard < need here, so it fits an int
	lowered := *c
	if !o.Set("server.max_unauthenticated") {
		lowered.Server.MaxUnauthenticated = max(1, min(c.Server.MaxUnauthenticated, left/4))
	}
	lowered.Server.MaxClients = left - lowered.Server.MaxUnauthenticated
	if lowered.Server.MaxClients < 1 {
		return nil, "", tooFewDescriptors(c, hard)
	}
	note = fmt.Sprintf("the system allows %d file descriptors and the defaults need %d: max_clients lowered from %d to %d, max_unauthenticated from %d to %d",
		hard, need, c.Server.MaxClients, lowered.Server.MaxClients, c.Server.MaxUnauthenticated, lowered.Server.MaxUnauthenticated)
	return &lowered, note, nil
}

func tooFewDescriptors(c *Config, hard uint64) error {
	return fmt.Errorf("%d file descriptors are needed, but the hard limit is %d: raise it (ulimit -Hn, LimitNOFILE=) or lower the settings: %s",
		DescriptorsNeeded(c), hard, descriptorSum(c))
}

func descriptorSum(c *Config) string {
	return fmt.Sprintf("server.max_clients %d + server.max_unauthenticated %d + %d host(s) × (capacity.max_backends %d + %d cancels) + %d",
		c.Server.MaxClients, c.Server.MaxUnauthenticated, len(c.Hosts()), c.Capacity.MaxBackends, CancelsPerHost, spareDescriptors)
}
