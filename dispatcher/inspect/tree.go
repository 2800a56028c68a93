package inspect

import (
	"cmp"
	"maps"
	"slices"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
)

// keyNode is a key with those who hold it or wait for it, and the keys below.
type keyNode struct {
	Key      lockkeys.Key
	Name     string // its last segment
	Holders  []use
	Waiters  []use
	Below    int // messages that hold or wait for keys below
	Children []*keyNode
}

// Path returns the key for a search.
func (n *keyNode) Path() string { return searchText(n.Key) }

// use is a message with the mode of its request.
type use struct {
	view.Message
	Mode string
}

// tree arranges the requests of messages by their keys.
func tree(list []view.Message) *keyNode {
	root := &keyNode{Name: "everything"}
	nodes := map[lockkeys.Key]*keyNode{lockkeys.Root(): root}
	var node func(k lockkeys.Key) *keyNode
	node = func(k lockkeys.Key) *keyNode {
		if n := nodes[k]; n != nil {
			return n
		}
		parent, _ := k.Parent()
		above := node(parent)
		n := &keyNode{Key: k, Name: slices.Collect(k.Segments())[k.Depth()-1]}
		nodes[k] = n
		above.Children = append(above.Children, n)
		return n
	}
	for _, m := range list {
		for _, r := range m.Claim {
			n := node(r.Key)
			if m.State == stateWaiting {
				n.Waiters = append(n.Waiters, use{m, r.Mode})
			} else {
				n.Holders = append(n.Holders, use{m, r.Mode})
			}
			for up := n; !up.Key.IsRoot(); {
				parent, _ := up.Key.Parent()
				up = nodes[parent]
				up.Below++
			}
		}
	}
	for n := range maps.Values(nodes) {
		slices.SortFunc(n.Children, func(a, b *keyNode) int { return cmp.Compare(a.Name, b.Name) })
	}
	return root
}
