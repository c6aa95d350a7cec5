package wire

// LinkType is the type of a message on the wire, "" for what is no message of a link.
func LinkType(m LinkMessage) string {
	if name := hostLinkType(m); name != "" {
		return name
	}
	return gatewayLinkType(m)
}

// hostLinkType is LinkType for what a host sends.
func hostLinkType(m LinkMessage) string {
	switch m.(type) {
	case Hello:
		return "hello"
	case Attached:
		return "attached"
	case Refused:
		return "refused"
	case Ack:
		return "ack"
	case EventMessage:
		return "event"
	case Receipt:
		return "receipt"
	case Room:
		return "room"
	case CatalogMessage:
		return "catalog"
	case Heartbeat:
		return "heartbeat"
	case Draining:
		return "draining"
	case Offline:
		return "offline"
	}
	return ""
}

// gatewayLinkType is LinkType for what a gateway alone sends.
func gatewayLinkType(m LinkMessage) string {
	switch m.(type) {
	case Welcome:
		return "welcome"
	case Attach:
		return "attach"
	case CommandMessage:
		return "command"
	case CursorMessage:
		return "cursor"
	case Detach:
		return "detach"
	case Steer:
		return "steer"
	case CatalogRequest:
		return "catalog.request"
	case Drain:
		return "drain"
	case Revoked:
		return "revoked"
	case Goaway:
		return "goaway"
	}
	return ""
}

// linkDecoder reads messages of a type; nil for a type that is not known.
func linkDecoder(name string) func(*node) (LinkMessage, error) {
	if decode := hostLinkDecoder(name); decode != nil {
		return decode
	}
	return gatewayLinkDecoder(name)
}

func hostLinkDecoder(name string) func(*node) (LinkMessage, error) {
	switch name {
	case "hello":
		return decodeLinkAs[Hello]
	case "attached":
		return decodeLinkAs[Attached]
	case "refused":
		return decodeLinkAs[Refused]
	case "ack":
		return decodeLinkAs[Ack]
	case "event":
		return decodeLinkAs[EventMessage]
	case "receipt":
		return decodeLinkAs[Receipt]
	case "room":
		return decodeLinkAs[Room]
	case "catalog":
		return decodeLinkAs[CatalogMessage]
	case "heartbeat":
		return decodeLinkAs[Heartbeat]
	case "draining":
		return decodeLinkAs[Draining]
	case "offline":
		return decodeLinkAs[Offline]
	}
	return nil
}

func gatewayLinkDecoder(name string) func(*node) (LinkMessage, error) {
	switch name {
	case "welcome":
		return decodeLinkAs[Welcome]
	case "attach":
		return decodeLinkAs[Attach]
	case "command":
		return decodeLinkAs[CommandMessage]
	case "cursor":
		return decodeLinkAs[CursorMessage]
	case "detach":
		return decodeLinkAs[Detach]
	case "steer":
		return decodeLinkAs[Steer]
	case "catalog.request":
		return decodeLinkAs[CatalogRequest]
	case "drain":
		return decodeLinkAs[Drain]
	case "revoked":
		return decodeLinkAs[Revoked]
	case "goaway":
		return decodeLinkAs[Goaway]
	}
	return nil
}
