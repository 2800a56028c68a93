package lockkeys

// A nodeMode is how a claim uses one node of the tree: the node of a request
// itself, or a node above it, where the claim only states its intention to use
// something below. These are the lock modes of J. Gray et al., "Granularity of
// Locks in a Shared Data Base" (VLDB 1975). With them, two claims conflict
// exactly when their modes are incompatible at some node, and that node is the
// key of the wider request: no claim ever needs to look at the descendants of
// its keys.
type nodeMode uint8

const (
	intentShared    nodeMode = iota // IS: a shared request somewhere below
	intentExclusive                 // IX: an exclusive request somewhere below
	shared                          // S: a shared request for this node
	sharedIntent                    // SIX: both of the two above, in one claim
	exclusive                       // X: an exclusive request for this node
)

// join gives the weakest mode that includes two modes of one claim at a node.
var join = [5][5]nodeMode{
	intentShared:    {intentShared, intentExclusive, shared, sharedIntent, exclusive},
	intentExclusive: {intentExclusive, intentExclusive, sharedIntent, sharedIntent, exclusive},
	shared:          {shared, sharedIntent, shared, sharedIntent, exclusive},
	sharedIntent:    {sharedIntent, sharedIntent, sharedIntent, sharedIntent, exclusive},
	exclusive:       {exclusive, exclusive, exclusive, exclusive, exclusive},
}

// groups reports whether two claims in mode m are compatible. Among the modes
// other than IS, only equal modes that group are compatible; IS is compatible
// with all but X. A node's queue relies on these two facts.
func (m nodeMode) groups() bool { return m == intentExclusive || m == shared }

// real reports whether m stands for a request for the node itself.
func (m nodeMode) real() bool { return m >= shared }

// ownShared reports whether m stands for a shared request for the node itself.
func (m nodeMode) ownShared() bool { return m == shared || m == sharedIntent }
